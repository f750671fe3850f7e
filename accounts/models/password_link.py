"""Links with which people set their password."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone


class LinkPurpose(models.TextChoices):
    INVITATION = "invitation", "invitation"
    RESET = "reset", "password reset"


class LinkState(StrEnum):
    """Whether a link still opens its page, or why not."""

    OPEN = "open"
    USED = "used"
    EXPIRED = "expired"
    REVOKED = "revoked"


# Neither used nor revoked; it may have expired.
UNENDED = models.Q(used_at__isnull=True, revoked_at__isnull=True)


def password_mark(encoded: str) -> str:
    """What tells whether a password is still the same one, from its (salted) hash. Opens nothing."""
    return hashlib.sha256(encoded.encode()).hexdigest()


class PasswordLink(models.Model):
    """A link that was handed to one person, of which only the hash of its token is here.

    It ends by being used, by its time, by being revoked, or because the password was set in another way,
    which `password_mark` tells. A user has one open link at most: a new one revokes the one before.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="password_links", verbose_name="user"
    )
    purpose = models.CharField("purpose", max_length=16, choices=LinkPurpose.choices)
    digest = models.CharField("SHA-256 of the token", max_length=64, unique=True, editable=False)
    password_mark = models.CharField("mark of the password before", max_length=64, editable=False)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name="made by",
        editable=False,
    )
    created_at = models.DateTimeField("made", default=timezone.now, editable=False)
    expires_at = models.DateTimeField("expires")
    used_at = models.DateTimeField("used", null=True, editable=False)
    revoked_at = models.DateTimeField("revoked", null=True, editable=False)

    class Meta:
        verbose_name = "password link"
        verbose_name_plural = "invitations and password links"
        ordering: ClassVar = ["-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user"], condition=UNENDED, name="password_link_one_open"),
            models.CheckConstraint(
                condition=models.Q(purpose__in=LinkPurpose.values), name="password_link_purpose_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_purpose_display()} {self.pk}"

    def state_at(self, now: datetime) -> LinkState:
        if self.used_at is not None:
            return LinkState.USED
        if self.revoked_at is not None:
            return LinkState.REVOKED
        return LinkState.EXPIRED if self.expires_at <= now else LinkState.OPEN
