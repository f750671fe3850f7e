"""Pages on which a policy is replayed over past requests: asked for, watched while it runs, and read.

They are for who may look at policies and at everybody's records. Who may not view texts gets a replay that
treats all of them as not kept, and does not get to see others' that did look at them.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminSelectWidget

from accounts.roles import sees_everybody, sees_texts_of_others
from hooks.admin.carried_draft import carried_draft, drafted_row
from hooks.admin.policy_form import HookPolicyForm
from hooks.contracts.policies import Policy
from hooks.contracts.refusals import HookRefusal, NotThere
from hooks.models import HookPolicy, HookReplay
from hooks.replaying import point_refusal
from hooks.services.columns import policy_of
from hooks.services.replay_report import ReplayViewer, replay_report
from hooks.services.replays import replay_cancel, replay_get, replay_resume, replay_start

NUM_LISTED = 50
_SPAN_NAMES = [("day", "the last 24 hours"), ("hour", "the last hour")]


class ReplayForm(forms.Form):
    """Its fields begin with `replay-`, beside those of the policy that is carried along."""

    prefix = "replay"
    span = forms.ChoiceField(choices=_SPAN_NAMES, label="Requests of", widget=UnfoldAdminSelectWidget)


@never_cache
def replay_form_page(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Asks for the span, then begins, with what stands in a policy's form or with a saved policy."""
    viewer = _viewer(request, model_admin)
    draft_form, carried = carried_draft(request)
    row = drafted_row(request)
    if draft_form is None and row is None:
        raise Http404
    form = ReplayForm(request.POST) if "replay-span" in request.POST else ReplayForm()
    if form.is_valid() and (draft_form is None or draft_form.is_valid()):
        try:
            replay = replay_start(
                policy=_policy(draft_form, row),
                span=form.cleaned_data["span"],
                looks_at_texts=viewer.sees_texts,
                is_draft=draft_form is not None and _differs(draft_form, row),
            )
        except HookRefusal as refusal:
            form.add_error(None, refusal.message)
        else:
            return HttpResponseRedirect(reverse("admin:hooks_hookpolicy_replay_report", args=[replay.pk]))
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Replay a policy over past requests",
        "opts": model_admin.opts,
        "form": form,
        "draft": draft_form,
        "draft_errors": {} if draft_form is None else draft_form.errors,
        "carried": carried,
        "row": row,
        "viewer": viewer,
        "refusal": _refusal(draft_form, row),
    }
    return TemplateResponse(request, "admin/hooks/replay_form.html", context)


@never_cache
def replay_page(request: HttpRequest, model_admin: Any, replay_id: int) -> HttpResponse:
    """One replay. POST with `do`: cancel, or resume, by who asked for it or may change policies."""
    viewer = _viewer(request, model_admin)
    try:
        row = replay_get(replay_id=replay_id)
    except NotThere:
        raise Http404 from None
    if not viewer.may_see(row):
        raise PermissionDenied("This replay looked at kept texts, which you may not view.")
    may_act = row.asked_by_id == request.user.pk or model_admin.has_change_permission(request)
    if request.method == "POST":
        if not may_act:
            raise PermissionDenied
        acts = {"cancel": replay_cancel, "resume": replay_resume}
        act = acts.get(request.POST.get("do", ""))
        if act is not None:
            try:
                act(replay_id=replay_id)
            except HookRefusal as refusal:
                messages.error(request, refusal.message)
        return HttpResponseRedirect(request.path)
    report = replay_report(row, viewer)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": f"Replay of {row.policy['name']}",
        "opts": model_admin.opts,
        "report": report,
        "row": row,
        "tally": report.tally,
        "viewer": viewer,
        "may_act": may_act,
        "tops": [("Models", report.models), ("Teams", report.teams), ("Keys", report.keys)],
    }
    return TemplateResponse(request, "admin/hooks/replay.html", context)


@require_safe
@never_cache
def replays_page(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """The newest; with `?policy=`, of one policy."""
    viewer = _viewer(request, model_admin)
    rows = viewer.seen(HookReplay.objects.order_by("-pk"))
    policy = drafted_row(request)
    if policy is not None:
        rows = rows.filter(policy_id=policy.pk)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Replays" if policy is None else f"Replays of {policy.name}",
        "opts": model_admin.opts,
        "rows": rows[:NUM_LISTED],
    }
    return TemplateResponse(request, "admin/hooks/replays.html", context)


def _viewer(request: HttpRequest, model_admin: Any) -> ReplayViewer:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    if not sees_everybody(request.user):
        raise PermissionDenied("Replays are for who may see everybody's requests.")
    return ReplayViewer(sees_everybody=True, sees_texts=sees_texts_of_others(request.user))


def _policy(draft_form: HookPolicyForm | None, row: HookPolicy | None) -> Policy:
    """Raises HookRefusal where a saved one cannot be read."""
    if draft_form is not None:
        return draft_form.policy()
    assert row is not None
    return policy_of(row)


def _differs(draft_form: HookPolicyForm, row: HookPolicy | None) -> bool:
    """A row that cannot be read differs from all that can."""
    try:
        return row is None or policy_of(row) != draft_form.policy()
    except HookRefusal:
        return True


def _refusal(draft_form: HookPolicyForm | None, row: HookPolicy | None) -> str:
    """Why it could not be replayed, said before anything is asked."""
    if draft_form is not None and not draft_form.is_valid():
        return ""
    try:
        return point_refusal(_policy(draft_form, row).point)
    except HookRefusal as refusal:
        return refusal.message
