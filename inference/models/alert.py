"""What operators are told."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Alert(models.Model):
    """Something that an operator should know, told once while it lasts.

    `subject` says of what (a key, say); of one kind and subject at most one alert is open. `notified_at`
    is when it was told; until then it is tried again.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField("kind", max_length=32)
    subject = models.CharField("subject", max_length=200, blank=True)
    message = models.TextField("message")
    opened_at = models.DateTimeField("began")
    closed_at = models.DateTimeField("ended", null=True)
    notified_at = models.DateTimeField("told", null=True)
    num_attempts = models.IntegerField("attempts to tell", default=0)

    class Meta:
        verbose_name = "alert"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind", "subject"], name="alert_open_once", condition=models.Q(closed_at=None)
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["-opened_at"], name="alert_time")]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}".rstrip()
