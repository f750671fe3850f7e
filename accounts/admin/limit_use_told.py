"""What is used of limits, in words, beside the limits themselves: of a key also those of its user and team,
which hold at the same time."""

from __future__ import annotations

import time
from typing import Any

from accounts.contracts import Limits
from accounts.limit_use import UsedLimit, limit_use_get, used_limits
from accounts.limits.contracts import LimitKind, LimitScope

_COUNTED = {
    LimitKind.REQUESTS_PER_MINUTE: "requests in the last minute",
    LimitKind.TOKENS_PER_MINUTE: "tokens in the last minute",
    LimitKind.PARALLEL_REQUESTS: "requests at once",
    LimitKind.TOKENS_PER_DAY: "tokens today",
    LimitKind.TOKENS_PER_WEEK: "tokens this week",
    LimitKind.TOKENS_PER_MONTH: "tokens this month",
}


def use_of_key(key: Any) -> str:
    policy = getattr(key.user, "policy", None)
    parts = [_told("", LimitScope.KEY, key.pk, key.limits())]
    if policy is not None:
        parts.append(_told("All keys of the user: ", LimitScope.USER, key.user_id, policy.limits()))
        if policy.team is not None:
            parts.append(
                _told(f"The team {policy.team.name}: ", LimitScope.TEAM, policy.team_id, policy.team.limits())
            )
    return _joined(parts)


def use_of_user(policy: Any) -> str:
    return _joined([_told("", LimitScope.USER, policy.user_id, policy.limits())])


def use_of_team(team: Any) -> str:
    return _joined([_told("", LimitScope.TEAM, team.pk, team.limits())])


def _joined(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part) or "Nothing is limited."


def _told(whose: str, scope: LimitScope, owner_id: int, limits: Limits) -> str:
    if not limits.has_counts:
        return ""
    now = time.time()
    used = limit_use_get(scope=scope, owner_id=owner_id, now=now)
    return "\n".join(f"{whose}{_line(one)}" for one in used_limits(limits, used, now))


def _line(one: UsedLimit) -> str:
    told = f"{one.used:,} of {one.most:,} {_COUNTED[one.kind]}"
    return told if one.anew_at is None else f"{told}, anew at {one.anew_at:%Y-%m-%d %H:%M} UTC"
