"""Teams: users who share limits."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from accounts.contracts import KeyPriority
from accounts.models.limit_columns import LimitColumns, limit_constraints
from accounts.models.priority_column import PRIORITIES, is_known_priority
from accounts.names import MAX_NAME_LENGTH, validate_name


class Team(LimitColumns):
    """What holds for all keys of all members together. A user is in one team or in none."""

    name = models.CharField("name", max_length=MAX_NAME_LENGTH, validators=[validate_name], unique=True)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    priority = models.CharField(
        "priority",
        max_length=16,
        blank=True,
        default="",
        choices=PRIORITIES,
        help_text="Who goes first where there is more work than lanes. Empty: normal.",
    )

    class Meta:
        verbose_name = "team"
        verbose_name_plural = "teams"
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=~models.Q(name=""), name="team_name_not_empty"),
            is_known_priority("team"),
            *limit_constraints("team"),
        ]

    def __str__(self) -> str:
        return self.name

    def known_priority(self) -> KeyPriority | None:
        return KeyPriority(self.priority) if self.priority else None
