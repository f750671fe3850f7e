"""What is used of limits, in words, beside the limits themselves: of a key also those of its user and team,
which hold at the same time."""

from __future__ import annotations

import time
from typing import Any

from accounts.contracts import Limits
from accounts.limit_use import LimitLine, limit_lines_get
from accounts.limits.contracts import LimitScope

_COUNTED = {
    "requests_per_minute": "requests in the last minute",
    "tokens_per_minute": "tokens in the last minute",
    "parallel_requests": "requests at once",
    "tokens_per_day": "tokens today",
    "tokens_per_week": "tokens this week",
    "tokens_per_month": "tokens this month",
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
    lines = limit_lines_get(scope=scope, owner_id=owner_id, limits=limits, labels=_COUNTED, now=time.time())
    return "\n".join(f"{whose}{_written(line)}" for line in lines)


def _written(line: LimitLine) -> str:
    text = f"{line.used:,} of {line.most:,} {line.label}"
    return text if line.anew_at is None else f"{text}, anew at {line.anew_at:%Y-%m-%d %H:%M} UTC"
