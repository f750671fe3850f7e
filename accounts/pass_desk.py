"""Passes of the playground: given to who is signed in, for one of his keys, and read at /v1.

A pass lets in as its key does, with the key's limits, networks and models, but only to generate, only for
five minutes, and only together with the cookie of the session that it was given to: the session's key is part
of what it is signed with. So one that is read over somebody's shoulder opens nothing, and one whose session
has ended (signed out, password changed, user switched off) ends with it, as with a revoked key within 4 s.
Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, SignatureExpired, TimestampSigner
from django.http import parse_cookie
from django.utils import timezone

from accounts.contracts import KeyFacts, KeyLookup, KeyState
from accounts.key_cache import KeyCache
from accounts.keys import PASS_PREFIX
from accounts.models import ApiKey
from accounts.models.api_key import live_at
from accounts.refusals import KEY_REFUSALS
from accounts.scopes import Scope
from accounts.selectors import on_cache_thread
from accounts.signed_in import is_signed_in

LIFETIME_S = 300
# A key that is not among them can still be pasted.
MAX_LISTED = 200
_SCOPES = frozenset({Scope.INFERENCE})


@dataclass(frozen=True, slots=True)
class IssuedPass:
    """Good for `lifetime_s` from now."""

    text: str = field(repr=False)
    lifetime_s: int = LIFETIME_S


class PassRefused(Exception):
    """No pass is given for this key: a sentence for people, a code, and a status of HTTP."""

    def __init__(self, message: str, *, code: str, status: HTTPStatus) -> None:
        super().__init__(message)
        self.message, self.code, self.status = message, code, status


@dataclass(frozen=True, slots=True)
class PlaygroundKey:
    """One of a user's keys that are good now. `can_generate`: a pass is given for it."""

    id: int
    name: str
    masked: str
    can_generate: bool
    keeps_text: bool


@dataclass(frozen=True, slots=True, repr=False)
class _Claim:
    """Which key a pass is for, whose it is, and in which session. `name` is what the cache knows it by, for
    seconds, since whoever reads the database for it needs all three."""

    key_id: int
    user_id: int
    session_key: str

    @property
    def name(self) -> str:
        return f"{self.key_id}.{self.user_id}.{self.session_key}"


def playground_keys(*, user: Any) -> list[PlaygroundKey]:
    """The user's own keys that open something now, newest first; of very many the newest MAX_LISTED."""
    now = timezone.now()
    rows = ApiKey.objects.select_related("user__policy__team").defer("digest").filter(user_id=user.pk)
    # What opens nothing takes no place from those that do.
    rows = rows.filter(live_at(now))
    return [
        PlaygroundKey(row.pk, row.name, row.masked, Scope.INFERENCE in row.granted_scopes(), row.keeps_text)
        for row in rows.order_by("-created_at", "-pk")[:MAX_LISTED]
        if row.state_at(now) is KeyState.VALID
    ]


def pass_issue(*, user: Any, session_key: str, key_id: int) -> IssuedPass:
    """A pass for this key of this user's in this session. Raises `PassRefused`."""
    row = ApiKey.objects.select_related("user__policy__team").filter(pk=key_id, user_id=user.pk).first()
    if row is None or not session_key:
        raise PassRefused("You have no such key.", code="key_not_found", status=HTTPStatus.NOT_FOUND)
    state = row.state_at(timezone.now())
    if state is not KeyState.VALID:
        refusal = KEY_REFUSALS[state]
        raise PassRefused(refusal.message, code=refusal.code, status=HTTPStatus.FORBIDDEN)
    if Scope.INFERENCE not in row.granted_scopes():
        raise PassRefused(
            f"This key may not generate: it lacks the scope `{Scope.INFERENCE.value}`.",
            code="permission_denied",
            status=HTTPStatus.FORBIDDEN,
        )
    return IssuedPass(PASS_PREFIX + _signer(session_key).sign(f"{row.pk}.{user.pk}"))


def pass_facts_read(name: str) -> KeyFacts | None:
    """What the database says of the key and the session with this name of a claim, by two queries; None where
    one of them is not there, or not the user's. Raises `AccountsUnavailable`."""
    key_id, user_id, session_key = name.split(".", 2)

    def read() -> KeyFacts | None:
        # With the user's password hash, unlike for keys: sessions end with it.
        rows = ApiKey.objects.select_related("user__policy__team").defer("digest")
        row = rows.get(pk=int(key_id), user_id=int(user_id))
        if not is_signed_in(row.user, session_key):
            return None
        facts: KeyFacts = row.facts()
        principal = replace(facts.principal, scopes=facts.principal.scopes & _SCOPES, is_in_playground=True)
        return replace(facts, principal=principal)

    return on_cache_thread(read)


# This process's memory of passes: their keys and sessions are asked after every 4 s, as keys are.
pass_cache = KeyCache(load=pass_facts_read)


async def pass_lookup(
    *, text: str, headers: Sequence[tuple[bytes, bytes]], cache: KeyCache = pass_cache
) -> KeyLookup:
    """Whose key this pass is for, and whether it opens anything now, shown with these headers (lower-case
    names). Raises `AccountsUnavailable`."""
    try:
        claim = _read(text, _session_key(headers))
    except SignatureExpired:
        return KeyLookup(KeyState.EXPIRED)
    except BadSignature:
        return KeyLookup(KeyState.UNKNOWN)
    facts = await cache.facts_of(claim.name)
    return KeyLookup(KeyState.UNKNOWN) if facts is None else facts.lookup_at(timezone.now())


def _signer(session_key: str) -> TimestampSigner:
    return TimestampSigner(sep=".", salt=f"accounts.pass_desk.{session_key}")


def _read(text: str, session_key: str) -> _Claim:
    """Raises BadSignature, also where there is no session."""
    if not session_key or not text.startswith(PASS_PREFIX):
        raise BadSignature("no pass")
    signed = _signer(session_key).unsign(text.removeprefix(PASS_PREFIX), max_age=LIFETIME_S)
    key_id, _, user_id = signed.partition(".")
    return _Claim(int(key_id), int(user_id), session_key)


def _session_key(headers: Sequence[tuple[bytes, bytes]]) -> str:
    cookies = "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")
    return str(parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, ""))
