"""Looks whether name and password belong together, in the same time for everybody.

An answer that is quicker for a name that nobody has, or other for one that was switched off, tells strangers
who is here. So there are as many queries and one hash for each try, and one answer.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.db.models import Q
from django.http import HttpRequest

from accounts.sign_in.attempts import folded


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


def user_counted(name: str) -> int | None:
    """Against whom a try counts: whom it means, else one whose name or address is spelt otherwise. All
    spellings of a name that nobody has count as one, so if those of a user's did not, it would show that he
    is here. Two queries, whoever it is."""
    meant = user_named(name)
    if not name or "\0" in name:
        return None
    named = Q()
    for spelt in (name, folded(name)):
        named |= Q(username__iexact=spelt) | (Q(email__iexact=spelt) & ~Q(email=""))
    alike = get_user_model().objects.filter(named).order_by("pk").values_list("pk", flat=True).first()
    return alike if meant is None else int(meant.pk)


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
