"""What the history tells of signing in: who came in and how, and what became of second factors.

Tries that failed are in the log (`adapter`), not here: whoever tries often enough could fill a table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.signals import user_logged_in
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_removed, authenticator_used
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from accounts.actors import Actor, Door, acting
from accounts.audit import change_record
from accounts.models import AdministrativeChange
from accounts.models.administrative_change import ChangeAction
from accounts.sign_in.second_factor import SESSION_MARK, FactorMark

_log = logging.getLogger(__name__)
SIGN_IN, SECOND_FACTOR = "sign_in", "second_factor"
_WAYS = {"password": "password", "socialaccount": "provider", "mfa": "second factor"}
NUM_SHOWN = 10


def sign_ins_recent(user_id: int) -> Any:
    """Of one user, newest first."""
    rows = AdministrativeChange.objects.filter(subject_user_id=user_id, subject_kind=SIGN_IN)
    return rows.order_by("-id")[:NUM_SHOWN]


def factor_change_record(
    user: Any, action: ChangeAction, kind: str, changes: Mapping[str, Any] | None = None
) -> None:
    change_record(
        action=action,
        kind=SECOND_FACTOR,
        subject_id=user.pk,
        label=f"{kind} of {user.get_username()}",
        user_id=user.pk,
        changes=changes,
    )


def sessions_end(user_id: int, *, but: str | None = None) -> int:
    """End the sessions of a user; how many. All sessions are read, which there are few of."""
    found = [
        session.pk
        for session in Session.objects.filter(expire_date__gt=timezone.now()).exclude(pk=but).iterator()
        if session.get_decoded().get(SESSION_KEY) == str(user_id)
    ]
    Session.objects.filter(pk__in=found).delete()
    return len(found)


def factor_was_set_up(request: HttpRequest, user: Any) -> None:
    """This session has shown the factor; others of his were begun without it, and end."""
    factor_change_record(user, ChangeAction.CREATED, Authenticator.Type.TOTP)
    request.session[SESSION_MARK] = FactorMark.OWN.value
    sessions_end(user.pk, but=request.session.session_key)


def listen() -> None:
    """Once, at the start of Django."""
    user_logged_in.connect(_signed_in, dispatch_uid="sign-in-history")
    authenticator_removed.connect(_removed, dispatch_uid="factor-removed")
    authenticator_used.connect(_used, dispatch_uid="factor-used")


def _signed_in(request: HttpRequest, user: Any, **_: Any) -> None:
    methods = [record["method"] for record in get_authentication_records(request, user)]
    # Written at each sign-in, so that what the session had of another user counts for nothing.
    request.session.pop(SESSION_MARK, None)
    if "mfa" in methods:
        request.session[SESSION_MARK] = FactorMark.OWN.value
    elif "socialaccount" in methods and settings.PROVIDER_COUNTS_AS_FACTOR:
        request.session[SESSION_MARK] = FactorMark.PROVIDER.value
    request.remembers_device_of = user.pk  # type: ignore[attr-defined]
    ways = ", ".join(dict.fromkeys(_WAYS.get(method, method) for method in methods))
    address = request.META.get("REMOTE_ADDR") or "unknown"
    with _as(request, user):
        change_record(
            action=ChangeAction.SIGNED_IN,
            kind=SIGN_IN,
            subject_id=user.pk,
            label=user.get_username(),
            user_id=user.pk,
            changes={"by": [None, ways], "address": [None, address]},
        )
    _log.info("signed in: user %s by %s", user.pk, ways)


def _removed(user: Any, authenticator: Authenticator, **_: Any) -> None:
    factor_change_record(user, ChangeAction.DELETED, authenticator.type)


def _used(request: HttpRequest, user: Any, authenticator: Authenticator, **_: Any) -> None:
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        return
    with _as(request, user):
        factor_change_record(user, ChangeAction.USED, authenticator.type)


@contextmanager
def _as(request: HttpRequest, user: Any) -> Iterator[None]:
    """Who is at the door has not signed in yet."""
    actor = Actor(Door.ADMIN, user.pk, user.get_username(), request_id=getattr(request, "request_id", None))
    with acting(lambda: actor):
        yield
