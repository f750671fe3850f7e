"""Looks whether name and password belong together, in the same time for everybody.

An answer that is quicker for a name that nobody has, or other for one that was switched off, tells strangers
who is here. So there is one query and one hash for each try, and one answer.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.db.models import Q
from django.http import HttpRequest


def user_named(name: str) -> Any:
    """Whom somebody means who types this: a user name, or an e-mail address that one user alone has."""
    if not name or "\0" in name:
        return None
    found = get_user_model().objects.filter(Q(username=name) | (Q(email__iexact=name) & ~Q(email="")))[:3]
    rows = list(found)
    by_name = [user for user in rows if user.username == name]
    if by_name:
        return by_name[0]
    return rows[0] if len(rows) == 1 else None


class PasswordBackend(ModelBackend):
    """Django's, with e-mail addresses and without a second answer for who is switched off."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> Any:
        if username is None or password is None:
            return None
        user = user_named(username)
        if user is None:
            make_password(password)
            return None
        # For a password that cannot be used Django computes a hash as well.
        is_right = user.check_password(password)
        return user if is_right and self.user_can_authenticate(user) else None
