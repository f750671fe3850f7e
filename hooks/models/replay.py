"""Replays of policies over past records: what was asked, how far it has come, and what was found."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from django.db import models
from django.utils import timezone

# What the history of changes calls it.
REPLAY_ACTION = "replayed"
MAX_REASON_LENGTH = 200


class ReplayState(StrEnum):
    """WAITING for its turn or a worker; FAILED says why in `reason`, and has what was found until then."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


OPEN_STATES = (ReplayState.WAITING, ReplayState.RUNNING)


class HookReplay(models.Model):
    """One policy, as it was written when it was asked for, over the records of a span.

    It goes on in slices, each by whatever worker takes it: `turn` and `claimed_until` say whose it is now,
    and place and tally are saved together, so that nothing is counted twice or left out when a worker dies.
    Users, keys and teams are ids here, in the tally too: names are looked up when they are shown.
    """

    policy_id = models.BigIntegerField("policy id", null=True)
    policy = models.JSONField("policy")
    is_draft = models.BooleanField("not saved", default=False)
    start_at = models.DateTimeField("from")
    end_at = models.DateTimeField("until")
    looks_at_texts = models.BooleanField("looks at kept texts")
    asked_by_id = models.BigIntegerField("id of who asked", null=True)
    asked_by = models.CharField("who asked", max_length=200, blank=True)
    state = models.CharField("state", max_length=16, default=ReplayState.WAITING.value)
    reason = models.CharField("why it ended", max_length=MAX_REASON_LENGTH, blank=True, default="")
    num_total = models.BigIntegerField("records there are", null=True)
    place_at = models.DateTimeField("time of the last record", null=True)
    place_id = models.UUIDField("id of the last record", null=True)
    tally = models.JSONField("found", default=dict)
    turn = models.BigIntegerField("slices begun", default=0)
    claimed_until = models.DateTimeField("slice taken for dead after", null=True)
    num_losses = models.PositiveSmallIntegerField("slices that did not come back", default=0)
    created_at = models.DateTimeField("asked", default=timezone.now)
    started_at = models.DateTimeField("begun", null=True)
    seen_at = models.DateTimeField("went on", default=timezone.now)
    finished_at = models.DateTimeField("ended", null=True)

    class Meta:
        verbose_name = "replay"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in ReplayState]),
                name="hook_replay_state_known",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["policy_id", "-id"], name="hook_replay_policy"),
            models.Index(
                fields=["id"],
                name="hook_replay_open",
                condition=models.Q(state__in=[state.value for state in OPEN_STATES]),
            ),
            models.Index(fields=["created_at"], name="hook_replay_created"),
            models.Index(fields=["asked_by_id"], name="hook_replay_asked_by"),
        ]

    def __str__(self) -> str:
        return f"replay {self.pk} of {self.policy.get('name', '')}"
