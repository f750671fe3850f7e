"""Who may look on: by session, asked again every few seconds for all viewers of a process together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import SESSION_KEY, get_user_model
from django.utils import timezone

from accounts.api.caller import caller_by_session
from accounts.scopes import Scope
from accounts.signed_in import is_session_of
from inference.dashboards.live.session_check import session_store


def may_watch(user: Any) -> bool:
    """Who sees everybody's usage sees everybody's requests."""
    return bool(user.is_active) and caller_by_session(user).has(Scope.USAGE_ALL)


def watching_sessions(keys: Iterable[str]) -> set[str]:
    """Those of the sessions whose user is still signed in and may watch. Two queries for all of them, and
    those of the permissions of each user who is no superuser."""
    sessions = session_store().get_model_class().objects
    found = sessions.filter(session_key__in=set(keys), expire_date__gt=timezone.now())
    contents = {session.session_key: session.get_decoded() for session in found}
    wanted = {content.get(SESSION_KEY) for content in contents.values()} - {None}
    users = get_user_model().objects.in_bulk([int(pk) for pk in wanted])
    may = {str(pk): user for pk, user in users.items() if may_watch(user)}
    return {
        key
        for key, content in contents.items()
        if is_session_of(content, may.get(content.get(SESSION_KEY, "")))
    }
