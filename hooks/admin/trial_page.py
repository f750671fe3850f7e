"""The page on which policies are tried: a request is pasted, and what each policy would do is shown.

It comes with what stands in a policy's form, which is not saved by it: that is carried along in the page,
and takes the place of the saved policy. What is tried is what /api/hook-policies/try tries.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.cache import never_cache

from hooks.admin.carried_draft import carried_draft
from hooks.admin.policy_form import HookPolicyForm
from hooks.admin.trial_form import STREAM, TrialForm
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.refusals import HookRefusal
from hooks.contracts.view import RequestView, TextPart
from hooks.contracts.webhooks import WebhookCaller
from hooks.selectors import policies_for_trial
from hooks.services.trial import Trial, TrialResult, firings_decided, policy_try
from hooks.services.trial_desk import trial_desk

MAX_DIFF_LINES = 2000


@never_cache
def trial_page(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Asked with GET, or by a policy's form or its own with POST; nothing is written by either."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    given = request.POST
    is_sent = "trial-body" in given
    draft_form, carried = carried_draft(request)
    # Who may not say whom policies call may not have them called, either.
    may_ask = model_admin.has_change_permission(request)
    form = TrialForm(
        given if is_sent else None,
        initial=None if is_sent else _initial(request),
        may_ask_webhooks=may_ask,
    )
    result = view = webhooks = None
    if form.is_valid() and (draft_form is None or draft_form.is_valid()):
        try:
            trial = _trial(form, request)
            policies = _policies(form.cleaned_data["enforce"], draft_form)
        except HookRefusal as refusal:
            form.add_error(None, refusal.message)
        else:
            view = trial.request
            webhooks = trial_desk().webhooks() if form.cleaned_data.get("asks_webhooks") else None
            # On a loop of its own: this thread has none, and conditions may take their time.
            result = asyncio.run(_tried(trial, policies, webhooks))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Try policies on a request",
        "opts": model_admin.opts,
        "form": form,
        "carried": carried,
        "draft": draft_form,
        "draft_errors": {} if draft_form is None else draft_form.errors,
        "result": result,
        "was_asked": webhooks is not None,
        "firings": [] if result is None else firings_decided(result),
        "lines": [] if result is None or view is None else changed_lines(view, result.effective),
    }
    return TemplateResponse(request, "admin/hooks/trial.html", context)


async def _tried(
    trial: Trial, policies: list[Policy], webhooks: AbstractAsyncContextManager[WebhookCaller] | None
) -> TrialResult:
    async with webhooks or nullcontext() as caller:
        return await policy_try(trial=trial, policies=policies, webhooks=caller)


def _initial(request: HttpRequest) -> dict[str, Any]:
    chosen = request.GET.get("policy", "")
    return {"enforce": [chosen]} if chosen.isascii() and chosen.isdigit() else {}


def _trial(form: TrialForm, request: HttpRequest) -> Trial:
    """Raises HookRefusal where the request is none, or nobody's."""
    given, desk = form.cleaned_data, trial_desk()
    view, model = desk.view(given["endpoint"], given["body"])
    user_id = given["user_id"] or int(request.user.pk or 0)
    answer, is_stream = form.answer, given["answer_kind"] == STREAM
    return Trial(
        caller=desk.caller(user_id=user_id, key_id=given["key_id"]),
        model=model,
        request=view,
        first_token=form.first_token,
        window=given["window"],
        answer=None
        if answer is None
        else lambda held, seen: desk.answer(answer, held_chars=held if is_stream else None, seen_chars=seen),
        outcome=form.terminal_outcome,
    )


def _policies(enforced: list[int], draft_form: HookPolicyForm | None) -> list[Policy]:
    saved = policies_for_trial(enforced=frozenset(enforced))
    if draft_form is None:
        return list(saved)
    draft = replace(draft_form.policy(), mode=PolicyMode.ENFORCE)
    return [*[one for one in saved if one.policy_id != draft.policy_id], draft]


def changed_lines(before: RequestView, after: RequestView | None) -> list[tuple[str, str]]:
    """The request as lines, each with " ", "-" (goes) or "+" (comes); of a refused one nothing changes."""
    old = _lines(before)
    new = old if after is None else _lines(after)
    if max(len(old), len(new)) > MAX_DIFF_LINES:  # comparing takes the square of it
        return [("-", line) for line in old[:MAX_DIFF_LINES]] + [("+", line) for line in new[:MAX_DIFF_LINES]]
    matched = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[tuple[str, str]] = []
    for kind, start, end, new_start, new_end in matched.get_opcodes():
        if kind == "equal":
            lines += [(" ", line) for line in old[start:end]]
        else:
            lines += [("-", line) for line in old[start:end]]
            lines += [("+", line) for line in new[new_start:new_end]]
    return lines


def _lines(view: RequestView) -> list[str]:
    lines: list[str] = []
    for message in view.messages:
        lines.append(f"{message.role}:")
        for part in message.parts:
            text = part.text if isinstance(part, TextPart) else f"({part.sort.value})"
            lines += [f"    {line}" for line in text.splitlines() or [""]]
        lines += [f"    (reasoning) {line}" for line in (message.reasoning or "").splitlines()]
        lines += [f"    (call) {line}" for one in message.tool_arguments for line in one.splitlines()]
    lines += [line for prompt in view.prompts for line in (prompt or "(tokens)").splitlines()]
    for name, value in sorted(view.parameters.items()):
        lines.append(f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}")
    return lines
