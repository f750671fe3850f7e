"""How often signing in failed lately, by source."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class SignInAttempts(models.Model):
    """Failures from one source since the last quiet hour, and until when the next try is refused.

    `source` is a keyed digest: names that strangers typed, which may be a password in the wrong field, and
    addresses stand nowhere. `user_id` is there where the source concerns a user who exists, so that an
    operator can clear it.
    """

    source = models.CharField(max_length=64, primary_key=True)
    user_id = models.BigIntegerField(null=True, db_index=True)
    num_failed = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(null=True, db_index=True)
    refused_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = "attempts to sign in"
        verbose_name_plural = "attempts to sign in"
        default_permissions: ClassVar = ("view",)

    def __str__(self) -> str:
        return f"{self.num_failed} failed"
