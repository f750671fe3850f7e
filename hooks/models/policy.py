"""The policies that administrators wrote; `hooks.contracts.policies` says what the columns mean.

Whom a policy is for is kept as ids, not as relations: hooks know nobody's tables, and a policy for a team
that is gone is for nobody, where a relation would leave it without a scope, which is for everybody.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.expressions import Func
from django.db.models.lookups import Exact
from django.utils import timezone

from hooks.contracts.points import HookPoint
from hooks.contracts.policies import (
    DEFAULT_DEADLINE_S,
    DEFAULT_HELD_CHARS,
    MAX_DEADLINE_S,
    MAX_HELD_CHARS,
    FailureRule,
    PolicyMode,
)

# What the history of changes calls it.
POLICY_KIND = "hook_policy"
MAX_NAME_LENGTH = 100
MAX_MODEL_ID_LENGTH = 200
MAX_SCOPE_IDS = 1000
MAX_ORDER = 1_000_000

POINTS = [(point.value, point.value.replace("_", " ")) for point in HookPoint]
MODES = [(mode.value, mode.value) for mode in PolicyMode]
FAILURE_RULES = [(FailureRule.CLOSED.value, "refuse the request"), (FailureRule.OPEN.value, "go on without")]


def _is_json(column: str, kind: str) -> Exact:
    found = Func(models.F(column), function="jsonb_typeof", output_field=models.CharField())
    return Exact(found, models.Value(kind))


def _scope_of(base: models.Field, label: str) -> ArrayField:
    return ArrayField(base, verbose_name=label, size=MAX_SCOPE_IDS, default=list, blank=True)


class HookPolicy(models.Model):
    """One policy. `revision` grows with every change."""

    name = models.CharField("name", max_length=MAX_NAME_LENGTH, unique=True)
    description = models.TextField("description", blank=True, default="", help_text="For people.")
    order = models.PositiveIntegerField(
        "order",
        default=100,
        help_text="Lower ones are applied first, equal ones in the order of their making.",
    )
    mode = models.CharField(
        "mode",
        max_length=16,
        choices=MODES,
        default=PolicyMode.OFF.value,
        help_text="Observe: what would be done is recorded, and nothing is done.",
    )
    is_required = models.BooleanField(
        "required",
        default=True,
        help_text="For every request in its scope; otherwise only for those that ask for it (skippy_hooks).",
    )
    team_ids = _scope_of(models.BigIntegerField(), "teams")
    user_ids = _scope_of(models.BigIntegerField(), "users")
    key_ids = _scope_of(models.BigIntegerField(), "keys")
    model_ids = _scope_of(models.CharField(max_length=MAX_MODEL_ID_LENGTH), "models")
    point = models.CharField("point", max_length=32, choices=POINTS, default=HookPoint.BEFORE.value)
    condition = models.TextField(
        "condition", blank=True, default="", help_text="A CEL expression of type bool. Empty: always."
    )
    actions = models.JSONField("actions", default=list, help_text="A list of actions.")
    deadline_s = models.FloatField(
        "deadline in seconds", default=DEFAULT_DEADLINE_S, help_text="For all of it, webhook included."
    )
    on_failure = models.CharField(
        "if it fails", max_length=16, choices=FAILURE_RULES, default=FailureRule.CLOSED.value
    )
    window = models.JSONField(
        "window rule", default=dict, blank=True, help_text="When it is asked mid-generation. Empty: as usual."
    )
    held_chars = models.PositiveIntegerField(
        "held-back characters",
        default=DEFAULT_HELD_CHARS,
        help_text="Before output, of a stream: what is not longer is seen whole before any of it goes out.",
    )
    revision = models.BigIntegerField("revision", default=1, editable=False)
    created_at = models.DateTimeField("added", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "policy"
        verbose_name_plural = "policies"
        ordering: ClassVar = ["order", "pk"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="hook_policy_named"),
            models.CheckConstraint(condition=models.Q(order__lte=MAX_ORDER), name="hook_policy_order_range"),
            models.CheckConstraint(
                condition=models.Q(mode__in=[mode.value for mode in PolicyMode]),
                name="hook_policy_mode_known",
            ),
            models.CheckConstraint(
                condition=models.Q(point__in=[point.value for point in HookPoint]),
                name="hook_policy_point_known",
            ),
            models.CheckConstraint(
                condition=models.Q(on_failure__in=[rule.value for rule in FailureRule]),
                name="hook_policy_failure_known",
            ),
            # NaN is above every number for Postgres, so this leaves it out.
            models.CheckConstraint(
                condition=models.Q(deadline_s__gt=0, deadline_s__lte=MAX_DEADLINE_S),
                name="hook_policy_deadline_range",
            ),
            models.CheckConstraint(
                condition=models.Q(held_chars__lte=MAX_HELD_CHARS), name="hook_policy_held_range"
            ),
            models.CheckConstraint(condition=models.Q(revision__gte=1), name="hook_policy_revision"),
            models.CheckConstraint(condition=_is_json("actions", "array"), name="hook_policy_actions_list"),
            models.CheckConstraint(condition=_is_json("window", "object"), name="hook_policy_window_object"),
        ]

    def __str__(self) -> str:
        return self.name
