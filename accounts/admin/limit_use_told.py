"""What is used of limits, in words, beside the limits themselves: of a key also those of its user and team,
which hold at the same time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from accounts.contracts import BudgetPeriod, Limits
from accounts.limit_use import LimitUse, limit_use_get
from accounts.limits.contracts import LimitScope
from accounts.limits.periods import seconds_left

_COUNTED = {
    "requests_per_minute": "requests in the last minute",
    "tokens_per_minute": "tokens in the last minute",
    "parallel_requests": "requests at once",
    "tokens_per_day": "tokens today",
    "tokens_per_week": "tokens this week",
    "tokens_per_month": "tokens this month",
}
_PERIODS = {
    "tokens_per_day": BudgetPeriod.DAY,
    "tokens_per_week": BudgetPeriod.WEEK,
    "tokens_per_month": BudgetPeriod.MONTH,
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
    lines = [_line(name, words, limits, used, now) for name, words in _COUNTED.items()]
    return "\n".join(f"{whose}{line}" for line in lines if line)


def _line(name: str, words: str, limits: Limits, used: LimitUse | None, now: float) -> str:
    most = getattr(limits, f"max_{name}")
    if most is None:
        return ""
    num_used = 0 if used is None else getattr(used, name)
    period = _PERIODS.get(name)
    if period is None:
        return f"{num_used:,} of {most:,} {words}"
    anew = datetime.fromtimestamp(round(now + seconds_left(period, now)), UTC)
    return f"{num_used:,} of {most:,} {words}, anew at {anew:%Y-%m-%d %H:%M} UTC"
