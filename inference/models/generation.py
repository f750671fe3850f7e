"""What was asked and answered, by whom, and what it cost.

Users, keys and teams are plain numbers here, with their names beside them: a record outlives what it
speaks of.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from inference.domain.outcomes import Outcome
from inference.domain.priority import PriorityClass

OUTCOMES = [(outcome.value, outcome.value) for outcome in Outcome]
_PRIORITIES = [(priority.value, priority.value) for priority in PriorityClass]


class GenerationRecord(models.Model):
    """One request to a generating endpoint, written once at its end (`inference.ledger`).

    The table is partitioned by the month of `created_at` (`inference.ledger.partitions`); its key in
    the database is (id, created_at), and each query should bound `created_at`. `recorded_at` is when the
    row came to the table, which can be much later: after an outage, or for a request whose process died.
    Numbers are 0 and texts empty where there is nothing to say; times are seconds, null where the request
    never got there. No text of a prompt or an answer is here, see GenerationText.
    """

    id = models.UUIDField(primary_key=True, editable=False)
    created_at = models.DateTimeField("arrived")
    finished_at = models.DateTimeField("ended")
    recorded_at = models.DateTimeField("recorded", db_default=Now())

    request_id = models.CharField("request id", max_length=64)
    user_id = models.BigIntegerField("user id")
    username = models.CharField("user", max_length=150, blank=True)
    key_id = models.BigIntegerField("key id")
    key_name = models.CharField("key", max_length=100, blank=True)
    team_id = models.BigIntegerField("team id", null=True)
    team_name = models.CharField("team", max_length=150, blank=True)

    endpoint = models.CharField("endpoint", max_length=64)
    model = models.CharField("model", max_length=200, blank=True)
    is_stream = models.BooleanField("streamed")
    priority = models.CharField("priority", max_length=16, choices=_PRIORITIES)
    session = models.CharField("session", max_length=16, blank=True)
    was_session_ignored = models.BooleanField("session ignored")
    end_user = models.CharField("the body's user", max_length=512, blank=True)
    metadata = models.JSONField("metadata", default=dict)
    # Null where the request said nothing, and in lines of journals that are older than the column.
    cache_retention = models.CharField("prompt cache retention", max_length=16, null=True)  # noqa: DJ001

    max_tokens = models.BigIntegerField("tokens asked for")
    num_input_tokens = models.BigIntegerField("input tokens")
    num_cached_tokens = models.BigIntegerField("cached input tokens")
    num_output_tokens = models.BigIntegerField("output tokens")
    num_reasoning_tokens = models.BigIntegerField("reasoning tokens")
    num_injected_tokens = models.BigIntegerField("injected tokens")

    queue_s = models.FloatField("wait for a lane", null=True)
    first_token_s = models.FloatField("time to first token", null=True)
    time_per_token_s = models.FloatField("time per output token", null=True)
    total_s = models.FloatField("total time")

    outcome = models.CharField("outcome", max_length=32, choices=OUTCOMES)
    status = models.PositiveSmallIntegerField("status")
    finish_reason = models.CharField("finish reason", max_length=32, blank=True)
    rejection_reason = models.CharField("reason of refusal", max_length=64, blank=True)
    error_code = models.CharField("error code", max_length=64, blank=True)
    hook_decisions = models.JSONField("hook decisions", default=list)

    class Meta:
        verbose_name = "generation record"
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(
                    num_input_tokens__gte=0,
                    num_output_tokens__gte=0,
                    num_cached_tokens__gte=0,
                    num_reasoning_tokens__gte=0,
                    num_injected_tokens__gte=0,
                    max_tokens__gte=0,
                    total_s__gte=0,
                ),
                name="record_numbers_not_negative",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["-created_at", "-id"], name="record_time"),
            models.Index(fields=["key_id", "-created_at", "-id"], name="record_key_time"),
            models.Index(fields=["user_id", "-created_at", "-id"], name="record_user_time"),
            models.Index(fields=["team_id", "-created_at", "-id"], name="record_team_time"),
            models.Index(fields=["request_id"], name="record_request_id"),
            models.Index(
                fields=["-created_at", "-id"], name="record_decided", condition=~models.Q(hook_decisions=[])
            ),
            *(
                models.Index(
                    fields=[f"{owner}_id", "-created_at", "-id"],
                    name=f"record_{owner}_decided",
                    condition=~models.Q(hook_decisions=[]),
                )
                for owner in ("key", "user", "team")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.request_id} ({self.outcome})"


class GenerationText(models.Model):
    """What was asked and answered, where the key allows that it is kept; deleted after `expires_at`.

    The answer of a response that was stored has a `response_id`, and is the response object as JSON;
    `previous_response_id` is that of the one that it went on from.
    """

    record_id = models.UUIDField(primary_key=True, editable=False)
    created_at = models.DateTimeField("arrived")
    expires_at = models.DateTimeField("deleted after")
    user_id = models.BigIntegerField("user id")
    key_id = models.BigIntegerField("key id")
    request = models.TextField("request body")
    answer = models.TextField("answer")
    response_id = models.CharField("response id", max_length=64, null=True)  # noqa: DJ001 - unique where there is one
    previous_response_id = models.CharField("previous response id", max_length=64, blank=True, default="")

    class Meta:
        verbose_name = "text of a generation"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["response_id"], name="text_response_id_unique"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["expires_at"], name="text_expires_at"),
            models.Index(fields=["user_id"], name="text_user"),
        ]

    def __str__(self) -> str:
        return str(self.record_id)


class IdempotentRequest(models.Model):
    """A request that named itself by the header Idempotency-Key, so that its repetition is recognised.

    `name_digest` and `body_digest` are SHA-256: the caller's name may tell something, and a body does.
    The first request of a name runs until `finished_at`, and is taken for dead after `runs_until`. One that
    did not complete leaves no row. `answer` is what was sent, kept only where the key keeps text.
    """

    id = models.BigAutoField(primary_key=True)
    key_id = models.BigIntegerField("key id")
    name_digest = models.BinaryField("digest of the name", max_length=32)
    body_digest = models.BinaryField("digest of the body", max_length=32)
    request_id = models.CharField("request id", max_length=64)
    record_id = models.UUIDField("record id")
    created_at = models.DateTimeField("arrived")
    expires_at = models.DateTimeField("forgotten after")
    runs_until = models.DateTimeField("taken for dead after")
    finished_at = models.DateTimeField("ended", null=True)
    status = models.PositiveSmallIntegerField("status", null=True)
    content_type = models.CharField("content type", max_length=100, blank=True)
    answer = models.BinaryField("answer", null=True)

    class Meta:
        verbose_name = "idempotent request"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["key_id", "name_digest"], name="idempotent_name_unique"),
        ]
        indexes: ClassVar = [models.Index(fields=["expires_at"], name="idempotent_expires_at")]

    def __str__(self) -> str:
        return self.request_id
