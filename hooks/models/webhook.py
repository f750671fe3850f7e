"""The webhooks that policies may call; `hooks.contracts.webhook_settings` says what the columns mean.

The secret is here in no other form than encrypted, and is given to nobody but who signs calls with it.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from hooks.contracts.webhook_settings import (
    DEFAULT_ANSWER_BYTES,
    DEFAULT_BODY_BYTES,
    DEFAULT_IN_FLIGHT,
    DEFAULT_RETRIES,
    DEFAULT_WEBHOOK_DEADLINE_S,
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_IN_FLIGHT,
    MAX_RETRIES,
    MAX_WEBHOOK_DEADLINE_S,
)
from hooks.models.policy import MAX_NAME_LENGTH

# What the history of changes calls it.
WEBHOOK_KIND = "webhook"
MAX_URL_LENGTH = 2000
MAX_RIGHTS = 32


class Webhook(models.Model):
    """One webhook. `revision` grows with every change, also of the secret."""

    name = models.CharField("name", max_length=MAX_NAME_LENGTH, unique=True)
    description = models.TextField("description", blank=True, default="", help_text="For people.")
    url = models.CharField("address", max_length=MAX_URL_LENGTH)
    secret_encrypted = models.TextField("secret", editable=False)
    parts = ArrayField(
        models.CharField(max_length=32),
        verbose_name="may see",
        size=MAX_RIGHTS,
        default=list,
        blank=True,
        help_text="Parts of requests and answers that are sent to it.",
    )
    actions = ArrayField(
        models.CharField(max_length=32),
        verbose_name="may answer with",
        size=MAX_RIGHTS,
        default=list,
        blank=True,
        help_text="Types of actions.",
    )
    deadline_s = models.FloatField("deadline in seconds", default=DEFAULT_WEBHOOK_DEADLINE_S)
    max_body_bytes = models.PositiveIntegerField("largest body in bytes", default=DEFAULT_BODY_BYTES)
    max_answer_bytes = models.PositiveIntegerField("largest answer in bytes", default=DEFAULT_ANSWER_BYTES)
    max_in_flight = models.PositiveIntegerField("calls at once, at most", default=DEFAULT_IN_FLIGHT)
    max_retries = models.PositiveSmallIntegerField("retries, at most", default=DEFAULT_RETRIES)
    allows_private = models.BooleanField(
        "may be in a private network",
        default=False,
        help_text="Its address may then be one of our own networks, and plain http.",
    )
    revision = models.BigIntegerField("revision", default=1, editable=False)
    created_at = models.DateTimeField("added", default=timezone.now, editable=False)
    updated_at = models.DateTimeField("changed", default=timezone.now, editable=False)

    class Meta:
        verbose_name = "webhook"
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~models.Q(name="") & ~models.Q(url=""), name="webhook_not_empty"
            ),
            models.CheckConstraint(
                condition=models.Q(deadline_s__gt=0, deadline_s__lte=MAX_WEBHOOK_DEADLINE_S),
                name="webhook_deadline_range",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    max_body_bytes__gte=1,
                    max_body_bytes__lte=MAX_BODY_BYTES,
                    max_answer_bytes__gte=1,
                    max_answer_bytes__lte=MAX_ANSWER_BYTES,
                    max_in_flight__gte=1,
                    max_in_flight__lte=MAX_IN_FLIGHT,
                    max_retries__lte=MAX_RETRIES,
                ),
                name="webhook_bounds",
            ),
            models.CheckConstraint(condition=models.Q(revision__gte=1), name="webhook_revision"),
        ]

    def __str__(self) -> str:
        return self.name
