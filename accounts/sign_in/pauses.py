"""The page for who has to wait: 429, with how long."""

from __future__ import annotations

import logging

from allauth.core.exceptions import ImmediateHttpResponse
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.sign_in.attempts import CodeTry, CountedTry, TooManyAttempts, Try, attempt_begin
from accounts.sign_in.devices import device_of

_log = logging.getLogger(__name__)


def begin_or_pause(request: HttpRequest, attempt: Try) -> CountedTry:
    """Count a try. Raises ImmediateHttpResponse with the page where the next one has to wait."""
    try:
        return attempt_begin(attempt)
    except TooManyAttempts as problem:
        _log.warning(
            "too many attempts to sign in: address %s, user %s, next one in %s s",
            request.META.get("REMOTE_ADDR") or "unknown",
            attempt.user_id,
            problem.wait_s,
        )
        raise ImmediateHttpResponse(pause_page(request, problem.wait_s)) from None


def code_begin_or_pause(request: HttpRequest, user_id: int) -> CountedTry:
    """The same for a `CodeTry` of this user's in this browser."""
    return begin_or_pause(request, CodeTry(user_id, device_of(request, user_id)))


def pause_page(request: HttpRequest, wait_s: int) -> HttpResponse:
    shown = f"{wait_s} seconds" if wait_s < 90 else f"{-(-wait_s // 60)} minutes"
    response = render(request, "console/account/too_many.html", {"wait": shown, "wait_s": wait_s}, status=429)
    response["Retry-After"] = str(wait_s)
    response["Cache-Control"] = "no-store"
    return response
