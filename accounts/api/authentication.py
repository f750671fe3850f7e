"""How callers of the management API sign in: by API key, or in the browser by the admin's session.

A key is read from the database each time, not from the cache of /v1: a revoked one manages nothing more,
not even for 4 s. A request with an Authorization header is judged by it alone.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied, Throttled
from rest_framework.request import Request

from accounts import keys
from accounts.api.caller import caller_by_key, caller_by_session
from accounts.api.failed_attempts import FailedAttempts
from accounts.contracts import KeyState
from accounts.last_used import api_keys_last_used_write
from accounts.models import ApiKey
from accounts.refusals import KEY_REFUSALS
from accounts.sign_in.second_factor import is_factor_missing

failed_attempts = FailedAttempts()
NO_FACTOR = (
    "Your account needs a second factor, and this session was begun without it. "
    "Set one up under /console/account/security/, and log in with it."
)
_USE_IS_NOTED_EVERY = timedelta(minutes=1)


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer sk-skippy-…` and nothing else, as under /v1."""

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        header: str | None = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        address = request.META.get("REMOTE_ADDR") or ""
        plaintext = keys.read_bearer(header.encode("latin-1", "replace"))
        digest = None if plaintext is None else keys.digest_of(plaintext)
        wait_s = failed_attempts.wait_s(address, digest)
        if wait_s is not None:
            raise Throttled(wait_s, "Too many attempts with keys that are not good.")
        row = None if digest is None else _row(digest)
        state = KeyState.UNKNOWN if row is None else row.state_at(timezone.now())
        if row is None or digest is None or state is not KeyState.VALID:
            failed_attempts.note_failed(address)
            refusal = KEY_REFUSALS[state]
            raise AuthenticationFailed(refusal.message, refusal.code)
        failed_attempts.note_good(digest)
        if not row.facts().principal.limits.allows_address(address):
            raise PermissionDenied("This API key may not be used from your network.")
        _note_use(row)
        request._request.api_caller = caller_by_key(row)
        return row.user, None


class AdminSession(SessionAuthentication):
    """Who is signed in to the admin. Everything that changes something needs the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        found: tuple[Any, None] | None = super().authenticate(request)
        if found is not None:
            if is_factor_missing(found[0], request._request.session):
                raise PermissionDenied(NO_FACTOR)
            request._request.api_caller = caller_by_session(found[0])
        return found


def _row(digest: str) -> ApiKey | None:
    found: ApiKey | None = ApiKey.objects.select_related("user__policy__team").filter(digest=digest).first()
    return found


def _note_use(row: ApiKey) -> None:
    now = timezone.now()
    if row.last_used_at is None or row.last_used_at < now - _USE_IS_NOTED_EVERY:
        api_keys_last_used_write({row.pk: now})
