"""One's own keys as the console shows them: what each may, and how much of it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accounts.contracts import KeyState, Limits
from accounts.limit_use import LimitUse, limit_use_get, limit_uses_get, used_limits
from accounts.limits.contracts import LimitKind, LimitScope
from accounts.models import ApiKey
from accounts.roles import session_grantable_scopes
from accounts.scopes import scopes_sorted

MAX_LISTED = 200
_LABELS = {
    LimitKind.REQUESTS_PER_MINUTE: "requests a minute",
    LimitKind.TOKENS_PER_MINUTE: "tokens a minute",
    LimitKind.PARALLEL_REQUESTS: "requests at once",
    LimitKind.TOKENS_PER_DAY: "tokens a day",
    LimitKind.TOKENS_PER_WEEK: "tokens a week",
    LimitKind.TOKENS_PER_MONTH: "tokens a month",
}
STATES = {
    KeyState.VALID: "valid",
    KeyState.EXPIRED: "expired",
    KeyState.REVOKED: "revoked",
    KeyState.USER_INACTIVE: "account inactive",
}


@dataclass(frozen=True, slots=True)
class LimitLine:
    """`used` of `most`, both in the unit of `label`; a budget begins anew at `anew_at` (UTC)."""

    label: str
    used: int
    most: int
    anew_at: datetime | None = None


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
        of_user=() if policy is None else _of(LimitScope.USER, user.pk, policy.limits(), now),
        of_team=() if team is None else _of(LimitScope.TEAM, team.pk, team.limits(), now),
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
        limits=_lines(limits, used, now),
        can_revoke=row.revoked_at is None,
        can_replace=may_replace and state is KeyState.VALID,
    )


def _of(scope: LimitScope, owner_id: int, limits: Limits, now: datetime) -> tuple[LimitLine, ...]:
    return _lines(limits, limit_use_get(scope=scope, owner_id=owner_id, now=now.timestamp()), now)


def _lines(limits: Limits, used: LimitUse | None, now: datetime) -> tuple[LimitLine, ...]:
    return tuple(
        LimitLine(_LABELS[one.kind], one.used, one.most, one.anew_at)
        for one in used_limits(limits, used, now.timestamp())
    )
