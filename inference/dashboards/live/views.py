"""The live page, and the end of a request that it shows."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import OperationalError
from django.http import HttpRequest, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts.api.caller import caller_by_session
from accounts.scopes import Scope
from inference.dashboards.live.rights import may_watch
from inference.dashboards.viewer import Viewer, console_page
from inference.ledger.live_desk import live_request_cancel


@console_page
def live(request: HttpRequest, viewer: Viewer) -> Any:
    if not may_watch(request.user):
        raise PermissionDenied
    can_cancel_all = caller_by_session(request.user).has(Scope.KEYS)
    return render(request, "console/live.html", {"viewer": viewer, "can_cancel_all": can_cancel_all})


@require_POST
@never_cache
@login_required
def cancel(request: HttpRequest, record_id: UUID) -> JsonResponse:
    """As /api/requests/<id>/cancel: anybody's with the right to manage keys, else one's own."""
    if not may_watch(request.user):
        raise PermissionDenied
    caller = caller_by_session(request.user)
    user_id = None if caller.has(Scope.KEYS) else caller.user_id
    try:
        cancelled = live_request_cancel(record_id=record_id, user_id=user_id)
    except OperationalError:
        return JsonResponse({"message": "The database does not answer. Please try again."}, status=503)
    if cancelled.request is not None:
        return JsonResponse({"message": f"Cancelled: {cancelled.request.request_id}"})
    if cancelled.num_silent:
        return JsonResponse({"message": "A server process did not answer. Please try again."}, status=503)
    return JsonResponse({"message": "It has ended already, or is not yours to cancel."}, status=404)
