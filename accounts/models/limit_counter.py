"""What was used of limits, shared by all server processes (`accounts.limits.store`)."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from accounts.limits.contracts import LimitScope

_SCOPES = [(scope.value, scope.value) for scope in LimitScope]


class LimitCounter(models.Model):
    """One key, user or team that has limits. Its row is locked by whoever decides about it.

    Owners are plain numbers: a counter that nobody needs any more does no harm. The tokens of a day,
    week and month are counted by the database itself as records come in; the rest is worth a minute.
    """

    scope = models.CharField(max_length=8, choices=_SCOPES)
    owner_id = models.BigIntegerField()
    window = ArrayField(models.BigIntegerField(), default=list)
    num_open = models.BigIntegerField(default=0)
    num_reserved_tokens = models.BigIntegerField(default=0)
    day_start = models.DateField()
    day_tokens = models.BigIntegerField()
    week_start = models.DateField()
    week_tokens = models.BigIntegerField()
    month_start = models.DateField()
    month_tokens = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scope", "owner_id"], name="limitcounter_owner_unique"),
        ]

    def __str__(self) -> str:
        return f"limit counter of {self.scope} {self.owner_id}"


class LimitReservation(models.Model):
    """What a request that has not ended has taken, so that it can be given back where its process died.

    An owner's number is there where that owner's counter was taken from.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    process_id = models.UUIDField(db_index=True)
    key_id = models.BigIntegerField(null=True)
    user_id = models.BigIntegerField(null=True)
    team_id = models.BigIntegerField(null=True)
    slot = models.BigIntegerField()
    num_tokens = models.BigIntegerField()

    def __str__(self) -> str:
        return f"limit reservation {self.pk}"


class LimitProcess(models.Model):
    """A server process that may hold reservations. One that was not seen for long is dead."""

    id = models.UUIDField(primary_key=True, editable=False)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"server process {self.pk}"
