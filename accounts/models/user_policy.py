"""What an administrator decided about users."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from accounts.contracts import KeyPriority, Policy
from accounts.models.limit_columns import LimitColumns, limit_constraints
from accounts.models.priority_column import PRIORITIES, is_known_priority
from accounts.models.team import Team

MAX_OWN_KEYS = 1000


class UserPolicy(LimitColumns):
    """What holds for all keys of one user. A user without a row has the defaults, and no team."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="policy", verbose_name="user"
    )
    team = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="members",
        verbose_name="team",
        help_text="Its limits hold for all of its members together.",
    )
    has_session_trust = models.BooleanField(
        "session trust",
        default=False,
        help_text="Sessions named in the configured header are believed, for all keys of this user.",
    )
    priority = models.CharField(
        "priority",
        max_length=16,
        blank=True,
        default="",
        choices=PRIORITIES,
        help_text="Who goes first where there is more work than lanes; never above the team's. "
        "Empty: the team's, or normal.",
    )

    max_own_keys = models.PositiveSmallIntegerField(
        "own keys",
        default=0,
        blank=True,
        validators=[MaxValueValidator(MAX_OWN_KEYS)],
        help_text="Keys that this user may make and have, those made for him included. 0: he makes none.",
    )
    max_own_key_days = models.PositiveSmallIntegerField(
        "days of own keys",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Keys that this user makes himself end after so many days at most. Empty: no bound.",
    )

    class Meta:
        verbose_name = "policy"
        verbose_name_plural = "policies"
        constraints: ClassVar = [
            is_known_priority("userpolicy"),
            *limit_constraints("userpolicy"),
        ]

    def __str__(self) -> str:
        return f"policy of user {self.user_id}"

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Django's, after a number that was left empty in a form has got its default."""
        if self.max_own_keys is None:
            self.max_own_keys = 0
        super().clean_fields(exclude)

    def policy(self) -> Policy:
        return Policy(self.has_session_trust, KeyPriority(self.priority) if self.priority else None)
