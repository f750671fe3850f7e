"""One's own keys as the console shows them: what each may, and how much of it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounts.contracts import KeyState
from accounts.limit_use import LimitLine, LimitUse, limit_lines, limit_lines_get, limit_uses_get
from accounts.limits.contracts import LimitScope
from accounts.models import ApiKey
from accounts.roles import session_grantable_scopes
from accounts.scopes import scopes_sorted

MAX_LISTED = 200
_LABELS = {
    "requests_per_minute": "requests a minute",
    "tokens_per_minute": "tokens a minute",
    "parallel_requests": "requests at once",
    "tokens_per_day": "tokens a day",
    "tokens_per_week": "tokens a week",
    "tokens_per_month": "tokens a month",
}
STATES = {
    KeyState.VALID: "valid",
    KeyState.EXPIRED: "expired",
    KeyState.REVOKED: "revoked",
    KeyState.USER_INACTIVE: "account inactive",
}


@dataclass(frozen=True, slots=True)
class ListedKey:
    """`row` without its digest. `can_replace`: by its owner, on this page."""

    row: ApiKey
    state: str
    scopes: tuple[str, ...]
    models: tuple[str, ...]
    networks: tuple[str, ...]
    limits: tuple[LimitLine, ...]
    can_revoke: bool
    can_replace: bool


@dataclass(frozen=True, slots=True)
class KeyList:
    """Newest first. `of_user` are the limits of all keys together, `of_team` those of all members of the
    user's team; all hold at once. `is_cut`: there are more keys."""

    keys: tuple[ListedKey, ...]
    num_live: int
    of_user: tuple[LimitLine, ...]
    of_team: tuple[LimitLine, ...]
    is_cut: bool


def own_keys(user: Any) -> Any:
    """A query set of somebody's keys."""
    return ApiKey.objects.filter(user_id=user.pk).select_related("user__policy__team").defer("digest")


def key_list(user: Any, *, may_make: bool, now: datetime) -> KeyList:
    rows: Sequence[ApiKey] = list(own_keys(user)[: MAX_LISTED + 1])
    is_cut, rows = len(rows) > MAX_LISTED, rows[:MAX_LISTED]
    used = limit_uses_get(scope=LimitScope.KEY, owner_ids=[row.pk for row in rows], now=now.timestamp())
    grantable = session_grantable_scopes(user)
    replaced = set(ApiKey.objects.filter(rotated_from__in=rows).values_list("rotated_from_id", flat=True))
    listed = tuple(
        _listed(
            row,
            used.get(row.pk),
            may_replace=may_make and row.pk not in replaced and row.granted_scopes() <= grantable,
            now=now,
        )
        for row in rows
    )
    policy = getattr(user, "policy", None)
    team = None if policy is None else policy.team
    return KeyList(
        listed,
        num_live=sum(one.state == STATES[KeyState.VALID] for one in listed),
        of_user=() if policy is None else _lines_of(LimitScope.USER, user.pk, policy, now),
        of_team=() if team is None else _lines_of(LimitScope.TEAM, team.pk, team, now),
        is_cut=is_cut,
    )


def _listed(row: ApiKey, used: LimitUse | None, *, may_replace: bool, now: datetime) -> ListedKey:
    state, limits = row.state_at(now), row.limits()
    return ListedKey(
        row,
        STATES[state],
        scopes=tuple(scopes_sorted(row.granted_scopes())),
        models=tuple(limits.allowed_models),
        networks=tuple(map(str, limits.allowed_networks)),
        limits=limit_lines(limits, used, labels=_LABELS, now=now.timestamp()),
        can_revoke=row.revoked_at is None,
        can_replace=may_replace and state is KeyState.VALID,
    )


def _lines_of(scope: LimitScope, owner_id: int, row: Any, now: datetime) -> tuple[LimitLine, ...]:
    return limit_lines_get(
        scope=scope, owner_id=owner_id, limits=row.limits(), labels=_LABELS, now=now.timestamp()
    )
