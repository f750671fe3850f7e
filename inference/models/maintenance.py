"""Whether the service is open."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

MAX_MESSAGE_LENGTH = 500
MAX_LET_KEYS = 100
ONLY_ID = 1


class Maintenance(models.Model):
    """One row, or none as long as nobody has ever closed the service; meanings as in
    inference.domain.maintenance. `began_by` is the name of whoever switched it on."""

    id = models.SmallIntegerField(primary_key=True, default=ONLY_ID)
    is_on = models.BooleanField("under maintenance", default=False)
    message = models.CharField("message", max_length=MAX_MESSAGE_LENGTH, blank=True)
    until = models.DateTimeField("planned end", null=True, blank=True)
    refuses_queued = models.BooleanField("refuses what waits", default=False)
    lets_administrators = models.BooleanField("lets administrators' keys through", default=False)
    let_key_ids = ArrayField(
        models.BigIntegerField(), verbose_name="keys that are let through", default=list, blank=True
    )
    began_at = models.DateTimeField("began", null=True, blank=True)
    began_by = models.CharField("by", max_length=200, blank=True)

    class Meta:
        verbose_name = "maintenance"
        verbose_name_plural = "maintenance"
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(id=ONLY_ID), name="maintenance_only_one"),
        ]

    def __str__(self) -> str:
        return "maintenance"
