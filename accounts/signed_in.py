"""Whether a session is still somebody's, for doors that are outside of Django's middleware."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from accounts.sign_in.second_factor import is_factor_missing


def is_session_of(content: dict[str, Any], user: Any) -> bool:
    """As django.contrib.auth.get_user: a new password ends the sessions that are older than it. Where its
    user must have a second factor, a session that was begun without it is nobody's."""
    if user is None or BACKEND_SESSION_KEY not in content:
        return False
    is_his = constant_time_compare(content.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
    return is_his and not is_factor_missing(user, content)


def is_signed_in(user: Any, session_key: str) -> bool:
    """Whether this session is there, has not ended, and is this user's. One query; `user` needs its
    password hash."""
    row = Session.objects.filter(session_key=session_key, expire_date__gt=timezone.now()).first()
    if row is None:
        return False
    content: dict[str, Any] = row.get_decoded()
    return content.get(SESSION_KEY) == str(user.pk) and is_session_of(content, user)
