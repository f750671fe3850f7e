"""The page of what policies decided: for who may see everybody's requests."""

from __future__ import annotations

from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from hooks.action_form.forms import ACTION_FORMS
from hooks.contracts.decisions import DecisionResult
from hooks.contracts.points import HookPoint
from hooks.selectors import policy_names
from inference.dashboards.requests import PAGE_SIZE, read_place, written_place
from inference.dashboards.row_ids import row_id
from inference.dashboards.viewer import Viewer, console_page
from inference.dashboards.views import query_of, shared_context
from inference.usage.decision_log import DecisionFilter, decisions_page, policy_numbers

_CHOICES = {
    "point": [point.value for point in HookPoint],
    "result": [result.value for result in DecisionResult],
    "action": [form.kind for form in ACTION_FORMS],
}


@console_page
def decisions(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    if not viewer.sees_everybody:
        raise PermissionDenied("Decisions are for who may see everybody's requests.")
    query = query_of(request, viewer)
    given = {
        name: request.GET[name] for name, among in _CHOICES.items() if request.GET.get(name, "") in among
    }
    policy_id = row_id(request.GET.get("policy", ""))
    period = query.period
    page = decisions_page(
        filter=DecisionFilter(
            period.start_at,
            period.end_at,
            query.owner,
            policy_id=policy_id,
            model=query.texts.get("model", ""),
            **given,
        ),
        after=read_place(request.GET.get("after", "")),
        page_size=PAGE_SIZE,
    )
    names = policy_names()
    own = given if policy_id is None else {**given, "policy": str(policy_id)}
    context = {
        **shared_context(query, viewer),
        "page": page,
        "is_narrowed": bool(own),
        "following": None if page.following is None else written_place(page.following),
        "is_first": "after" not in request.GET,
        "policies": names,
        "policy_id": policy_id,
        "policy_name": "" if policy_id is None else names.get(policy_id, f"policy {policy_id} (gone)"),
        "numbers": None if policy_id is None else policy_numbers(policy_id=policy_id, now=timezone.now()),
        "choices": [(name, among, given.get(name, "")) for name, among in _CHOICES.items()],
        "parameters": "&".join(part for part in (query.parameters(), urlencode(own)) if part),
    }
    return render(request, "console/decisions.html", context)
