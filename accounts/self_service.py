"""Keys that a user makes for himself, within what an administrator allowed.

A team of ten should not have to ask for each script's key, and a key that leaked should not become the
source of better ones. So a new key is bounded by three things: the user's number and lifetime of own keys
(`UserPolicy`, 0 keys by default), the key that it is made with (its end, its scopes, its limits and its
policy), and the scopes of self-service, which never include making keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.utils import timezone

from accounts import services
from accounts.contracts import NO_LIMITS, Limits, Network, Policy
from accounts.keys import MintedKey
from accounts.models import ApiKey, UserPolicy
from accounts.models.api_key import live_at
from accounts.roles import session_grantable_scopes
from accounts.scopes import SELF_SERVICE_SCOPES, Scope, scopes_sorted

MAKES_NONE = "You may not make keys yourself: ask an administrator."
_COUNTED = (
    "max_requests_per_minute",
    "max_tokens_per_minute",
    "max_parallel_requests",
    "max_tokens_per_day",
    "max_tokens_per_week",
    "max_tokens_per_month",
)


@dataclass(frozen=True, slots=True)
class SelfServiceBounds:
    """What a user may have of own keys. `max_days` None: they need not end."""

    max_keys: int = 0
    max_days: int | None = None


def self_service_bounds(*, user: AbstractUser) -> SelfServiceBounds:
    row = UserPolicy.objects.filter(user=user).first()
    return SelfServiceBounds() if row is None else SelfServiceBounds(row.max_own_keys, row.max_own_key_days)


def self_service_set(*, user: AbstractUser, bounds: SelfServiceBounds) -> UserPolicy:
    """Allow a user so many own keys."""
    row = UserPolicy.objects.filter(user=user).first() or UserPolicy(user=user)
    row.max_own_keys = bounds.max_keys
    row.max_own_key_days = bounds.max_days
    row.clean_fields(exclude=["user", "team"])
    row.save()
    return row


@transaction.atomic
def own_key_create(
    *,
    user: AbstractUser,
    by: ApiKey | None,
    name: str,
    expires_at: datetime | None = None,
    scopes: frozenset[Scope] | None = None,
    limits: Limits | None = None,
) -> tuple[ApiKey, MintedKey]:
    """A key of `user` for himself, made with the key `by` (None: signed in).

    What is left open is as wide as it may be. Raises PermissionDenied where the user may make no (more)
    keys, ValidationError naming the field that is beyond the bounds.
    """
    # One at a time for each user, so that two together do not both find room for the last one.
    owner = get_user_model().objects.select_for_update(of=("self",)).get(pk=user.pk)
    bounds = self_service_bounds(user=owner)
    if bounds.max_keys == 0:
        raise PermissionDenied(MAKES_NONE)
    now = timezone.now()
    if ApiKey.objects.filter(live_at(now), user=owner).count() >= bounds.max_keys:
        raise PermissionDenied(
            f"You may have {bounds.max_keys} keys and have that many: revoke one that is not needed."
        )
    held = SELF_SERVICE_SCOPES if by is None else by.granted_scopes() & SELF_SERVICE_SCOPES
    asked = held if scopes is None else scopes
    if not asked <= held:
        beyond = ", ".join(scopes_sorted(asked - held))
        raise ValidationError({"scopes": f"You cannot give a scope that you do not have: {beyond}."})
    bound = NO_LIMITS if by is None else by.limits()
    given = bound if limits is None else limits
    check_within(given, bound)
    return services.api_key_create(
        user=owner,
        name=name,
        expires_at=bounded_end(expires_at, by=by, bounds=bounds, now=now),
        policy=Policy() if by is None else by.policy(),
        scopes=asked,
        limits=given,
    )


@transaction.atomic
def own_key_replace(*, user: AbstractUser, key: ApiKey, grace: timedelta) -> tuple[ApiKey, MintedKey]:
    """A new key in place of one of the user's own, by himself, signed in; the old one goes on for `grace`.

    It may what the old one may, so who may make no keys himself, or not such ones, may not replace them
    either. No more replaced keys go on at once than he may make: each has its own limits, so whoever
    replaced the new one again and again would have as many budgets as he likes. Raises PermissionDenied, and
    ValidationError as `services.api_key_rotate`, or where too many go on.
    """
    if key.user_id != user.pk:
        raise PermissionDenied("It is somebody else's key.")
    owner = get_user_model().objects.select_for_update(of=("self",)).get(pk=user.pk)
    max_keys = self_service_bounds(user=owner).max_keys
    if max_keys == 0:
        raise PermissionDenied(MAKES_NONE)
    beyond = key.granted_scopes() - session_grantable_scopes(user)
    if beyond:
        names = ", ".join(scopes_sorted(beyond))
        raise PermissionDenied(f"Ask an administrator to replace a key with more rights than yours: {names}.")
    going_on = ApiKey.objects.filter(live_at(timezone.now()), user=owner, rotated_to__isnull=False)
    if grace and going_on.count() >= max_keys:
        raise ValidationError(
            "Keys that you have replaced go on still, as many as you may have: revoke one, or end this one "
            "at once."
        )
    return services.api_key_rotate(key=key, grace=grace)


def bounded_end(
    asked: datetime | None, *, by: ApiKey | None, bounds: SelfServiceBounds, now: datetime
) -> datetime | None:
    """The end that an own key gets: the latest one that it may have where none was asked for."""
    ends = [] if by is None or by.expires_at is None else [by.expires_at]
    if bounds.max_days is not None:
        ends.append(now + timedelta(days=bounds.max_days))
    latest = min(ends, default=None)
    if asked is None or latest is None:
        return asked or latest
    if timezone.is_aware(asked) and asked > latest:
        raise ValidationError({"expires_at": f"Your keys end on {latest:%Y-%m-%d %H:%M} UTC at the latest."})
    return asked


def check_within(asked: Limits, bound: Limits) -> None:
    """Raises ValidationError naming the first limit of `asked` that lets more through than `bound`."""
    for name in _COUNTED:
        limit, most = getattr(asked, name), getattr(bound, name)
        if most is not None and (limit is None or limit > most):
            raise _beyond(name, f"at most {most}")
    if bound.allowed_models and not (
        asked.allowed_models and set(asked.allowed_models) <= set(bound.allowed_models)
    ):
        raise _beyond("allowed_models", "some of your own key's models")
    if bound.allowed_networks and not (
        asked.allowed_networks and all(_is_inside(one, bound) for one in asked.allowed_networks)
    ):
        raise _beyond("allowed_networks", "within your own key's networks")


def _is_inside(network: Network, bound: Limits) -> bool:
    return any(
        wider.version == network.version
        and int(wider[0]) <= int(network[0]) <= int(network[-1]) <= int(wider[-1])
        for wider in bound.allowed_networks
    )


def _beyond(name: str, allowed: str) -> ValidationError:
    return ValidationError({f"limits.{name}": f"Your own key has less: it must be {allowed}."})
