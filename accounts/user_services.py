"""Changing users: what the management API may say of one. Passwords and the admin's own rights are set in the
admin alone, so that no key can make an administrator."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction

from accounts import services


@transaction.atomic
def user_create(*, username: str, email: str = "") -> AbstractUser:
    """A user without a password, so that he signs in with keys alone. The name is nobody else's."""
    user_model = get_user_model()
    name = user_model.normalize_username(username)
    # Names that differ in case alone would be taken for each other.
    if user_model.objects.filter(username__iexact=name).exists():
        raise ValidationError({"username": "There is a user of this name."})
    user = user_model(username=name, email=email)
    user.set_unusable_password()
    user.clean_fields(exclude=["password"])
    user.save(force_insert=True)
    return user


def user_update(
    *, user: Any, email: str | None = None, is_active: bool | None = None, may_change_staff: bool = False
) -> AbstractUser:
    """What is None stays. Who may sign in to the admin is changed by a superuser alone (PermissionDenied)."""
    changed = []
    if email is not None and email != user.email:
        user.email = email
        changed.append("email")
    if is_active is not None and is_active != user.is_active:
        user.is_active = is_active
        changed.append("is_active")
    if not changed:
        return user  # type: ignore[no-any-return]
    if (user.is_staff or user.is_superuser) and not may_change_staff:
        raise PermissionDenied("Users who may sign in to the admin are changed there.")
    user.clean_fields(exclude=["password", "username"])
    user.save(update_fields=changed)
    transaction.on_commit(services.users_forget)
    return user  # type: ignore[no-any-return]
