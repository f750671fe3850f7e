"""Who has a token budget, for those who compare it with what was used."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from accounts.contracts import Limits
from accounts.models import ApiKey, Team, UserPolicy

_HAS_BUDGET = (
    Q(max_tokens_per_day__isnull=False)
    | Q(max_tokens_per_week__isnull=False)
    | Q(max_tokens_per_month__isnull=False)
)


@dataclass(frozen=True, slots=True)
class BudgetHolder:
    """A key, user or team with a budget. `column` is what usage calls its id; `name` is for people."""

    kind: str
    column: str
    id: int
    name: str
    limits: Limits


def budget_holders() -> list[BudgetHolder]:
    """All that have a budget of any period; keys that are revoked are not among them."""
    keys = ApiKey.objects.filter(_HAS_BUDGET, revoked_at=None).select_related("user")
    policies = UserPolicy.objects.filter(_HAS_BUDGET).select_related("user")
    return [
        *(
            BudgetHolder("key", "key_id", key.pk, f"{key.name} of {key.user.username}", key.limits())
            for key in keys
        ),
        *(
            BudgetHolder("user", "user_id", policy.user_id, policy.user.username, policy.limits())
            for policy in policies
        ),
        *(
            BudgetHolder("team", "team_id", team.pk, team.name, team.limits())
            for team in Team.objects.filter(_HAS_BUDGET)
        ),
    ]
