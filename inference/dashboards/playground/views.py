"""The playground: a page that asks /v1 as everybody does, and the passes that it shows there."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts.pass_desk import PassRefused, pass_issue, playground_keys
from inference.dashboards.row_ids import row_id
from inference.dashboards.viewer import Viewer, console_page


@console_page
def playground(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    context = {
        "viewer": viewer,
        "keys": playground_keys(user=request.user),
        "base_url": request.build_absolute_uri("/v1"),
    }
    return render(request, "console/playground.html", context)


@require_POST
@never_cache
@login_required
def issue_pass(request: HttpRequest) -> JsonResponse:
    """`key`: the id of one of his own keys."""
    try:
        issued = pass_issue(
            user=request.user,
            session_key=request.session.session_key or "",
            key_id=row_id(request.POST.get("key", "")) or 0,
        )
    except PassRefused as refused:
        error = {"message": refused.message, "code": refused.code}
        return JsonResponse({"error": error}, status=refused.status)
    return JsonResponse({"pass": issued.text, "lifetime_s": issued.lifetime_s})
