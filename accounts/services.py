"""Changing accounts: users, keys, and the first administrator.

Every door (admin, commands, first start) comes through here, so that names are checked, secrets
exist once, and this process forgets at commit what it knew of a changed key. Wrong input is a
`django.core.exceptions.ValidationError` with a sentence for people, naming the field.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.utils import timezone

from accounts import keys
from accounts.contracts import NO_LIMITS, KeyPriority, KeyState, Limits, Policy
from accounts.keys import MintedKey
from accounts.models import ApiKey, Team, UserPolicy
from accounts.models.limit_columns import LIMIT_COLUMNS
from accounts.scopes import DEFAULT_SCOPES, Scope, scopes_sorted
from accounts.selectors import api_key_cache

MAX_ROTATION_GRACE = timedelta(days=30)
FIRST_ADMINISTRATOR = "admin"
FIRST_KEY_NAME = "default"
NO_POLICY = Policy()
DECIDED_COLUMNS = ("has_session_trust", "priority", "keeps_text")
_NOT_ROTATED_BECAUSE = {
    KeyState.REVOKED: "is revoked",
    KeyState.EXPIRED: "has expired",
    KeyState.USER_INACTIVE: "belongs to an inactive user",
}
# Any number that no other lock of this database uses: "skippy" in ASCII.
_FIRST_START_LOCK = 0x736B69707079


@dataclass(frozen=True, slots=True)
class FirstAdministrator:
    """What the very first start made. The secrets are here and nowhere else: show them once."""

    username: str
    password: str = field(repr=False)
    api_key: MintedKey


def user_ensure(*, username: str) -> AbstractUser:
    """The user of this name, made without a password if there is none (so it cannot sign in)."""
    user_model = get_user_model()
    name = user_model.normalize_username(username)
    candidate = user_model(username=name)
    try:
        candidate.clean_fields(exclude=["password"])
    except ValidationError as error:
        messages = error.message_dict.get("username", error.messages)
        raise ValidationError({"username": messages}) from None
    candidate.set_unusable_password()
    user, _ = user_model.objects.get_or_create(username=name, defaults={"password": candidate.password})
    return user


def api_key_create(
    *,
    user: AbstractUser,
    name: str,
    expires_at: datetime | None = None,
    policy: Policy = NO_POLICY,
    scopes: frozenset[Scope] = DEFAULT_SCOPES,
    limits: Limits = NO_LIMITS,
) -> tuple[ApiKey, MintedKey]:
    """A new key of `user`. `expires_at` is aware and in the future, or None for a key without an end."""
    if not user.is_active:
        raise ValidationError({"user": "This user is inactive: a key would open nothing."})
    return _api_key_add(
        user=user,
        name=name,
        expires_at=expires_at,
        policy=policy,
        scopes=scopes,
        limits=limits,
        rotated_from=None,
    )


def api_key_update(
    *,
    key: ApiKey,
    name: str,
    expires_at: datetime | None,
    policy: Policy | None = None,
    scopes: frozenset[Scope] | None = None,
    limits: Limits | None = None,
) -> ApiKey:
    """Rename a key, move its end, or decide about it and what it may do (None leaves that as it is);
    a new end lies in the future, also for an expired key."""
    _validate_expiry(expires_at, now=timezone.now(), unless=key.expires_at)
    key.name = name
    key.expires_at = expires_at
    _decide(key, key.policy() if policy is None else policy)
    if scopes is not None:
        key.scopes = scopes_sorted(scopes)
    key.set_limits(key.limits() if limits is None else limits)
    key.clean_fields(exclude=["user", "digest"])
    key.save(update_fields=["name", "expires_at", "scopes", *DECIDED_COLUMNS, *LIMIT_COLUMNS])
    _forget_at_commit(key)
    return key


def api_key_revoke(*, key: ApiKey) -> ApiKey:
    """End a key for ever: at once in this process, within 5 s in all others. Doing it twice is fine."""
    with transaction.atomic():
        row = ApiKey.objects.select_for_update(of=("self",)).get(pk=key.pk)
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
        key.revoked_at = row.revoked_at
        _forget_at_commit(row)
    return key


def api_key_delete(*, key: ApiKey) -> None:
    """Remove a key that was made by mistake: revoked, and never used. Others stay, to be accounted for."""
    if key.revoked_at is None or key.last_used_at is not None:
        raise ValidationError("Only a revoked key that was never used can be deleted.")
    _forget_at_commit(key)
    key.delete()


@transaction.atomic
def api_key_rotate(*, key: ApiKey, grace: timedelta = timedelta(0)) -> tuple[ApiKey, MintedKey]:
    """Replace a live key by a new one of the same user, name, end, policy, scopes and limits.

    The old one is revoked at once, or expires after `grace` (at most 30 days) for clients that
    need time to change over; `grace` never moves an earlier end. A key is replaced once, so that
    two people who do it together do not leave two new keys behind.
    """
    if not timedelta(0) <= grace <= MAX_ROTATION_GRACE:
        raise ValidationError({"grace": f"The grace is between 0 and {MAX_ROTATION_GRACE.days} days."})
    old = ApiKey.objects.select_for_update(of=("self",)).select_related("user").get(pk=key.pk)
    now = timezone.now()
    state = old.state_at(now)
    if state is not KeyState.VALID:
        raise ValidationError(f"This key {_NOT_ROTATED_BECAUSE[state]} and cannot be replaced.")
    if ApiKey.objects.filter(rotated_from=old).exists():
        raise ValidationError("This key was replaced already: rotate the newer one.")
    new, minted = _api_key_add(
        user=old.user,
        name=old.name,
        expires_at=old.expires_at,
        policy=old.policy(),
        scopes=old.granted_scopes(),
        limits=old.limits(),
        rotated_from=old,
    )
    if grace:
        old.expires_at = min(now + grace, old.expires_at or now + grace)
    else:
        old.revoked_at = now
    old.save(update_fields=["expires_at", "revoked_at"])
    key.expires_at, key.revoked_at = old.expires_at, old.revoked_at
    _forget_at_commit(old)
    return new, minted


def user_policy_set(*, user: AbstractUser, policy: Policy, limits: Limits | None = None) -> UserPolicy:
    """Decide about a user, for all of its keys together; limits None leaves those as they are."""
    row = UserPolicy.objects.filter(user=user).first() or UserPolicy(user=user)
    row.has_session_trust = policy.has_session_trust
    row.priority = policy.priority or ""
    row.set_limits(row.limits() if limits is None else limits)
    row.clean_fields(exclude=["user", "team"])
    row.save()
    transaction.on_commit(users_forget)
    return row


def user_team_set(*, user: AbstractUser, team: Team | None) -> UserPolicy:
    """Put a user into a team, or into none."""
    row, _ = UserPolicy.objects.update_or_create(user=user, defaults={"team": team})
    transaction.on_commit(users_forget)
    return row


def team_create(*, name: str, priority: KeyPriority | None = None, limits: Limits = NO_LIMITS) -> Team:
    """A team without members. The name is no other team's."""
    return team_update(team=Team(), name=name, priority=priority, limits=limits)


def team_update(*, team: Team, name: str, priority: KeyPriority | None, limits: Limits) -> Team:
    """Rename a team, or decide about it."""
    team.name = name
    team.priority = priority or ""
    team.set_limits(limits)
    team.full_clean(validate_constraints=False)
    team.save()
    transaction.on_commit(users_forget)
    return team


def team_delete(*, team: Team) -> None:
    """Remove a team that nobody is in any more."""
    if team.members.exists():
        raise ValidationError("A team with members cannot be deleted: put them elsewhere first.")
    team.delete()


def users_forget() -> None:
    """A user was changed, switched off perhaps: this process asks the database again for every key."""
    api_key_cache.forget_all()


@transaction.atomic
def administrator_create_first(*, username: str = FIRST_ADMINISTRATOR) -> FirstAdministrator | None:
    """A superuser with a random password and one API key, if there is no superuser yet; else None.

    Several processes may start at once on one database: the first to get the lock makes it, the
    others find it made. An ordinary user who has the name already is not promoted; the
    administrator then gets a name with a random end.
    """
    user_model = get_user_model()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_FIRST_START_LOCK])
    if user_model.objects.filter(is_superuser=True).exists():
        return None
    if user_model.objects.filter(username=username).exists():
        username = f"{username}-{secrets.token_hex(3)}"
    password = secrets.token_urlsafe(18)
    user = user_model.objects.create_superuser(username=username, password=password)
    _, minted = api_key_create(user=user, name=FIRST_KEY_NAME)
    return FirstAdministrator(username=username, password=password, api_key=minted)


def _api_key_add(
    *,
    user: AbstractUser,
    name: str,
    expires_at: datetime | None,
    policy: Policy,
    scopes: frozenset[Scope],
    limits: Limits,
    rotated_from: ApiKey | None,
) -> tuple[ApiKey, MintedKey]:
    now = timezone.now()
    _validate_expiry(expires_at, now=now)
    minted = keys.mint()
    row = ApiKey(
        user=user,
        name=name,
        digest=minted.digest,
        visible_prefix=minted.visible_prefix,
        last4=minted.last4,
        created_at=now,
        expires_at=expires_at,
        scopes=scopes_sorted(scopes),
        rotated_from=rotated_from,
    )
    _decide(row, policy)
    row.set_limits(limits)
    row.clean_fields(exclude=["user"])
    row.save(force_insert=True)
    # The digest may be remembered as unknown only if somebody guessed 256 bits: nothing to forget.
    return row, minted


def _decide(key: ApiKey, policy: Policy) -> None:
    key.has_session_trust = policy.has_session_trust
    key.priority = policy.priority or ""
    key.keeps_text = policy.keeps_text


def _validate_expiry(expires_at: datetime | None, *, now: datetime, unless: datetime | None = None) -> None:
    """Refuses an end that is naive or over; `unless` is the end that the key has already."""
    if expires_at is None or expires_at == unless:
        return
    if timezone.is_naive(expires_at):
        raise ValidationError({"expires_at": "The expiry needs a time zone."})
    if expires_at <= now:
        raise ValidationError({"expires_at": "The expiry must lie in the future."})


def _forget_at_commit(key: ApiKey) -> None:
    transaction.on_commit(partial(api_key_cache.forget, key.digest))
