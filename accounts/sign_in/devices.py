"""Knows browsers in which somebody has signed in before, by a signed cookie.

Such a browser's tries are counted for itself (`attempts`), so that whoever guesses from elsewhere shuts
nobody out. The cookie opens nothing: it names a user and has a number, and is good for tries alone.
"""

from __future__ import annotations

from secrets import token_hex

from django.conf import settings
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase

COOKIE = "skippy_device"
_SALT = "skippy.sign_in.device"
MAX_AGE_S = 180 * 24 * 3600


def device_of(request: HttpRequest, user_id: int | None) -> str | None:
    """The number of this browser, if this user has signed in here before."""
    value = request.COOKIES.get(COOKIE)
    if not value or user_id is None:
        return None
    try:
        found = signing.loads(value, salt=_SALT, max_age=MAX_AGE_S)
        return str(found["device"]) if found["user"] == user_id else None
    except (signing.BadSignature, KeyError, TypeError):
        return None


def device_remember(request: HttpRequest, response: HttpResponseBase, user_id: int) -> None:
    device = device_of(request, user_id) or token_hex(16)
    response.set_cookie(
        COOKIE,
        signing.dumps({"user": user_id, "device": device}, salt=_SALT),
        max_age=MAX_AGE_S,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
        path="/console/",
    )
