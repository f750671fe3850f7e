"""The keys by which programs sign in."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from accounts.contracts import (
    NO_LIMITS,
    KeyFacts,
    KeyLimits,
    KeyPriority,
    KeyState,
    Policy,
    Principal,
    lowest_priority,
)
from accounts.models.limit_columns import LimitColumns, limit_constraints
from accounts.models.priority_column import PRIORITIES, is_known_priority
from accounts.models.user_policy import UserPolicy
from accounts.names import MAX_NAME_LENGTH, validate_name
from accounts.scopes import DEFAULT_SCOPES, Scope, scopes_sorted


def live_at(now: datetime) -> models.Q:
    """The keys that are neither revoked nor expired; their users may be switched off."""
    is_endless = models.Q(expires_at__isnull=True)
    return models.Q(revoked_at__isnull=True) & (is_endless | models.Q(expires_at__gt=now))


def default_scopes() -> list[str]:
    """For the column: what a key may do of which nothing else was said."""
    return scopes_sorted(DEFAULT_SCOPES)


class ApiKey(LimitColumns):
    """One key of one user. Holds what is needed to recognise it, and nothing that could open anything.

    A key is never made valid again: it ends by `revoked_at` or `expires_at`, and a user with keys
    cannot be deleted, only deactivated, so that what was done with a key stays attributable.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="api_keys", verbose_name="user"
    )
    name = models.CharField(
        "name",
        max_length=MAX_NAME_LENGTH,
        validators=[validate_name],
        help_text="What the key is for. Shown in lists, logs and usage.",
    )
    digest = models.CharField("SHA-256 of the key", max_length=64, editable=False)
    visible_prefix = models.CharField("prefix", max_length=32, editable=False, db_index=True)
    last4 = models.CharField("last four characters", max_length=4, editable=False)
    created_at = models.DateTimeField("created", default=timezone.now, editable=False)
    expires_at = models.DateTimeField(
        "expires", null=True, blank=True, help_text="From then on the key opens nothing. Empty: never."
    )
    revoked_at = models.DateTimeField("revoked", null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(
        "last used", null=True, blank=True, editable=False, help_text="Up to a minute behind."
    )
    has_session_trust = models.BooleanField(
        "session trust",
        default=False,
        help_text="Sessions named in the configured header are believed, whatever the user has.",
    )
    priority = models.CharField(
        "priority",
        max_length=16,
        blank=True,
        default="",
        choices=PRIORITIES,
        help_text="Who goes first where there is more work than lanes; never above the user's. "
        "Empty: the user's.",
    )
    keeps_text = models.BooleanField(
        "keeps text",
        default=False,
        help_text="Prompts and answers of this key are kept for a while, and repeated requests answered from "
        "them. Its users should know.",
    )
    scopes = ArrayField(
        models.CharField(max_length=32, choices=[(scope.value, scope.value) for scope in Scope]),
        verbose_name="scopes",
        default=default_scopes,
        blank=True,
        help_text="What the key may be used for.",
    )
    rotated_from = models.OneToOneField(
        "self",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="rotated_to",
        verbose_name="replaces",
    )

    class Meta:
        verbose_name = "API key"
        verbose_name_plural = "API keys"
        ordering: ClassVar = ["-created_at", "-id"]
        indexes: ClassVar = [models.Index(fields=["user", "-created_at"], name="apikey_user_created")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["digest"], name="apikey_digest_unique"),
            # Whatever a bug may write there, it is not a key.
            models.CheckConstraint(
                condition=models.Q(digest__regex=r"^[0-9a-f]{64}$"), name="apikey_digest_is_sha256"
            ),
            models.CheckConstraint(condition=~models.Q(name=""), name="apikey_name_not_empty"),
            models.CheckConstraint(
                condition=models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=models.F("created_at")),
                name="apikey_expires_after_creation",
            ),
            is_known_priority("apikey"),
            models.CheckConstraint(
                condition=models.Q(scopes__contained_by=[scope.value for scope in Scope]),
                name="apikey_scopes_are_known",
            ),
            *limit_constraints("apikey"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.masked})"

    @property
    def masked(self) -> str:
        """The key as it may be shown: its visible prefix and its last four characters."""
        return f"{self.visible_prefix}…{self.last4}"

    def policy(self) -> Policy:
        """What was decided about this key alone."""
        priority = KeyPriority(self.priority) if self.priority else None
        return Policy(self.has_session_trust, priority, self.keeps_text)

    def granted_scopes(self) -> frozenset[Scope]:
        return frozenset(Scope(name) for name in self.scopes)

    def facts(self) -> KeyFacts:
        """This row as accounts' contracts see it; reads user, policy and team, so select them along."""
        row: UserPolicy | None = getattr(self.user, "policy", None)
        team = None if row is None else row.team
        of_key = self.policy()
        of_user = Policy() if row is None else row.policy()
        return KeyFacts(
            principal=Principal(
                user_id=self.user_id,
                username=self.user.get_username(),
                key_id=self.pk,
                key_name=self.name,
                has_session_trust=of_key.has_session_trust or of_user.has_session_trust,
                priority=lowest_priority(
                    of_key.priority, of_user.priority, None if team is None else team.known_priority()
                ),
                scopes=self.granted_scopes(),
                team_id=None if team is None else team.pk,
                team_name="" if team is None else team.name,
                keeps_text=self.keeps_text,
                limits=KeyLimits(
                    of_key=self.limits(),
                    of_user=NO_LIMITS if row is None else row.limits(),
                    of_team=NO_LIMITS if team is None else team.limits(),
                ),
            ),
            is_revoked=self.revoked_at is not None,
            expires_at=self.expires_at,
            is_user_active=self.user.is_active,
        )

    def state_at(self, now: datetime) -> KeyState:
        return self.facts().state_at(now)
