"""Whom a provider may send, who that is here, and as what.

Taking a provider's word for who somebody is gives away accounts: whoever may choose an address or a name
there becomes its owner here. So nobody is found by either unless the operator says so, an address must be a
verified one that a single user has, and superusers are never found: they sign in with their passwords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import transaction

from accounts.actors import Actor, Door, acting
from accounts.role_groups import role_set
from accounts.roles import Role
from accounts.user_services import user_create

ACTOR = "provider"
NO_SUPERUSERS = "Superusers log in with their password."
_HIGHEST_FIRST = (Role.ADMINISTRATOR, Role.OPERATOR, Role.AUDITOR, Role.KEY_OWNER)


class PersonRefused(Exception):
    """The message is for the person."""


@dataclass(frozen=True, slots=True)
class ProviderPerson:
    """What the provider says. `email` is empty unless it was verified there."""

    subject: str
    email: str
    username: str
    groups: tuple[str, ...]

    @classmethod
    def of(cls, claims: Mapping[str, Any]) -> ProviderPerson:
        email = claims.get("email")
        # The specification has a boolean; some send the word.
        is_verified = claims.get("email_verified") in (True, "true")
        groups = claims.get(settings.PROVIDER_GROUPS_CLAIM) or ()
        if isinstance(groups, str):
            groups = [groups]
        return cls(
            subject=str(claims["sub"]),
            email=email if isinstance(email, str) and is_verified else "",
            username=_text(claims.get("preferred_username")),
            groups=tuple(group for group in groups if isinstance(group, str))
            if isinstance(groups, Sequence)
            else (),
        )

    @property
    def role(self) -> Role:
        """The highest that his groups have here."""
        given: Mapping[str, Role] = settings.PROVIDER_ROLES
        had = {given[group] for group in self.groups if group in given}
        return next((role for role in _HIGHEST_FIRST if role in had), Role.KEY_OWNER)


def person_admit(person: ProviderPerson) -> None:
    """Raises PersonRefused for who has no verified address in the domains that may come."""
    domains: Sequence[str] = settings.PROVIDER_DOMAINS
    if domains and person.email.rpartition("@")[2].lower() not in domains:
        raise PersonRefused(
            "Your e-mail address is not verified there, or not one of those that may come in."
        )


def person_find(person: ProviderPerson) -> Any:
    """Who was here before he first came by the provider; None if nobody. Raises PersonRefused where the one
    found may not be taken over."""
    users = get_user_model().objects.all()
    match settings.PROVIDER_LINKS_BY:
        case "email" if person.email:
            found = list(users.filter(email__iexact=person.email)[:2])
        case "username" if person.username:
            found = list(users.filter(username=person.username)[:2])
        case _:
            return None
    if len(found) > 1:
        raise PersonRefused("Several users have your e-mail address here. An administrator can mend that.")
    if found and found[0].is_superuser:
        raise PersonRefused(NO_SUPERUSERS)
    return found[0] if found else None


def person_create(person: ProviderPerson) -> Any:
    """A new user without a password. Raises PersonRefused where that is not wanted, or the name is taken."""
    if not settings.PROVIDER_CREATES_USERS:
        raise PersonRefused("You have no account here yet. An administrator can make you one.")
    name = person.username or person.email
    email = person.email
    if email and get_user_model().objects.filter(email__iexact=email).exists():
        email = ""  # somebody else's here
    try:
        with acting(_provider), transaction.atomic():
            user = user_create(username=name, email=email)
            role_set(user=user, role=Role.KEY_OWNER)
    except ValidationError:
        raise PersonRefused(
            "Your name is taken here, or cannot be used. An administrator can link or make your account."
        ) from None
    return user


def person_role_set(person: ProviderPerson, user: Any) -> None:
    """What his groups say, where roles come from there; a superuser stays one."""
    if not settings.PROVIDER_ROLES or user.is_superuser:
        return
    role = person.role
    has = set(user.groups.filter(name__in=[one.value for one in Role]).values_list("name", flat=True))
    if has != {role.value} or user.is_staff != role.is_staff:
        with acting(_provider):
            role_set(user=user, role=role)


def _provider() -> Actor:
    return Actor(Door.ADMIN, None, ACTOR)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
