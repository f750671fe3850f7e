"""Records and events of telemetry, added up by hours."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from inference.models.generation import OUTCOMES

_HISTOGRAM_NOTE = "counts by bucket of inference.domain.latency_histogram"


class UsagePending(models.Model):
    """A record that no bucket has counted yet.

    A trigger writes it in the transaction of the record, and the aggregation deletes it in that of the
    bucket: so a record is either here or in a bucket, at every instant, however late it came. It has a
    minute's records, so whoever reads it reads it whole: an index would cost each record more than it gives.
    """

    id = models.BigAutoField(primary_key=True)
    record_id = models.UUIDField("record id")
    created_at = models.DateTimeField("arrived")
    key_id = models.BigIntegerField("key id")
    user_id = models.BigIntegerField("user id")

    class Meta:
        verbose_name = "record to be aggregated"
        verbose_name_plural = "records to be aggregated"

    def __str__(self) -> str:
        return str(self.record_id)


class EndedRequests(models.Model):
    """Columns of rows that add up requests which ended in one way. `reason` is the finish reason of what was
    completed and the reason of a refusal; both it and `error_code` are empty where there is none."""

    outcome = models.CharField("outcome", max_length=32, choices=OUTCOMES)
    reason = models.CharField("reason", max_length=64, blank=True, default="")
    error_code = models.CharField("error code", max_length=64, blank=True, default="")

    num_requests = models.BigIntegerField("requests")
    num_input_tokens = models.BigIntegerField("input tokens")
    num_cached_tokens = models.BigIntegerField("cached input tokens")
    num_output_tokens = models.BigIntegerField("output tokens")
    num_reasoning_tokens = models.BigIntegerField("reasoning tokens")
    num_injected_tokens = models.BigIntegerField("injected tokens")

    class Meta:
        abstract = True


class Latencies(models.Model):
    """Columns of rows that say how long requests took: histograms, which can be added further. Each counts
    the requests that got to where it measures."""

    queue_counts = ArrayField(models.IntegerField(), help_text=_HISTOGRAM_NOTE)
    first_token_counts = ArrayField(models.IntegerField(), help_text=_HISTOGRAM_NOTE)
    per_token_counts = ArrayField(models.IntegerField(), help_text=_HISTOGRAM_NOTE)
    total_counts = ArrayField(models.IntegerField(), help_text=_HISTOGRAM_NOTE)

    class Meta:
        abstract = True


class UsageBucket(EndedRequests, Latencies):
    """One hour's requests of one key, model, endpoint and way to end, added up.

    `hour` is a full hour in UTC, of the requests' arrival.
    """

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField("hour")
    key_id = models.BigIntegerField("key id")
    user_id = models.BigIntegerField("user id")
    team_id = models.BigIntegerField("team id", null=True)
    model = models.CharField("model", max_length=200, blank=True)
    endpoint = models.CharField("endpoint", max_length=64)

    class Meta:
        verbose_name = "usage of an hour"
        verbose_name_plural = "usage by hour"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=[
                    "key_id",
                    "hour",
                    "user_id",
                    "team_id",
                    "model",
                    "endpoint",
                    "outcome",
                    "reason",
                    "error_code",
                ],
                name="usage_bucket_unique",
                nulls_distinct=False,
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["hour"], name="usage_hour"),
            models.Index(fields=["user_id", "hour"], name="usage_user_hour"),
            models.Index(fields=["team_id", "hour"], name="usage_team_hour"),
        ]

    def __str__(self) -> str:
        return f"key {self.key_id}, {self.hour:%Y-%m-%d %H:00} UTC, {self.outcome}"


class TeamUsageBucket(EndedRequests):
    """`UsageBucket` for whoever asks about everybody or a team: the keys of a team (null: of none) together.

    A month of hundreds of keys is half a million buckets, and a hundredth of that here.
    """

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField("hour")
    team_id = models.BigIntegerField("team id", null=True)
    model = models.CharField("model", max_length=200, blank=True)
    endpoint = models.CharField("endpoint", max_length=64)

    class Meta:
        verbose_name = "usage of a team's hour"
        verbose_name_plural = "usage of teams by hour"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["hour", "team_id", "model", "endpoint", "outcome", "reason", "error_code"],
                name="team_usage_bucket_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"team {self.team_id}, {self.hour:%Y-%m-%d %H:00} UTC, {self.outcome}"


class TeamLatencyBucket(Latencies):
    """How long the requests of one hour took, of a team (null: of none), model and endpoint: of those that
    were let in, since who is refused waits for nothing."""

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField("hour")
    team_id = models.BigIntegerField("team id", null=True)
    model = models.CharField("model", max_length=200, blank=True)
    endpoint = models.CharField("endpoint", max_length=64)

    class Meta:
        verbose_name = "latencies of a team's hour"
        verbose_name_plural = "latencies of teams by hour"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["hour", "team_id", "model", "endpoint"],
                name="team_latency_bucket_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"team {self.team_id}, {self.hour:%Y-%m-%d %H:00} UTC"


class Span(models.Model):
    """Columns of rows that say of what time, team, model and endpoint they are.

    `num_hours` is 1 or 24. `is_of_all`: of all teams together, and then `team_id` is null, as it also is for
    those who have no team.
    """

    num_hours = models.PositiveSmallIntegerField("hours")
    is_of_all = models.BooleanField("of all teams")
    starts_at = models.DateTimeField("from")
    team_id = models.BigIntegerField("team id", null=True)
    model = models.CharField("model", max_length=200, blank=True)
    endpoint = models.CharField("endpoint", max_length=64)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.num_hours} h from {self.starts_at:%Y-%m-%d %H:00} UTC"


class SpanUsage(Span, EndedRequests):
    """Usage of everybody by hours, and of teams and everybody by whole days (of UTC): for spans over which
    the hours of teams are too many. Hours of one team are `TeamUsageBucket`."""

    id = models.BigAutoField(primary_key=True)

    class Meta:
        verbose_name = "usage of a span"
        verbose_name_plural = "usage by spans"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=[
                    "num_hours",
                    "is_of_all",
                    "starts_at",
                    "team_id",
                    "model",
                    "endpoint",
                    "outcome",
                    "reason",
                    "error_code",
                ],
                name="span_usage_unique",
                nulls_distinct=False,
            ),
        ]


class SpanLatency(Span, Latencies):
    """`TeamLatencyBucket` by the spans of `SpanUsage`."""

    id = models.BigAutoField(primary_key=True)

    class Meta:
        verbose_name = "latencies of a span"
        verbose_name_plural = "latencies by spans"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["num_hours", "is_of_all", "starts_at", "team_id", "model", "endpoint"],
                name="span_latency_unique",
                nulls_distinct=False,
            ),
        ]


class PartyUsage(models.Model):
    """Columns of rows that say what one key used of one model and endpoint over a longer time."""

    key_id = models.BigIntegerField("key id")
    user_id = models.BigIntegerField("user id")
    team_id = models.BigIntegerField("team id", null=True)
    model = models.CharField("model", max_length=200, blank=True)
    endpoint = models.CharField("endpoint", max_length=64)

    num_requests = models.BigIntegerField("requests")
    num_unfinished = models.BigIntegerField("requests that were not completed")
    num_input_tokens = models.BigIntegerField("input tokens")
    num_cached_tokens = models.BigIntegerField("cached input tokens")
    num_output_tokens = models.BigIntegerField("output tokens")

    class Meta:
        abstract = True


class UsageDay(PartyUsage):
    """A whole day (of UTC) of one key, model and endpoint: for lists of all keys or users over weeks."""

    id = models.BigAutoField(primary_key=True)
    day = models.DateTimeField("day")

    class Meta:
        verbose_name = "usage of a day"
        verbose_name_plural = "usage by day"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["day", "key_id", "user_id", "team_id", "model", "endpoint"],
                name="usage_day_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"key {self.key_id}, {self.day:%Y-%m-%d} UTC"


class UsageMonth(PartyUsage):
    """A whole month (of UTC): for such lists over a year."""

    id = models.BigAutoField(primary_key=True)
    month = models.DateTimeField("month")

    class Meta:
        verbose_name = "usage of a month"
        verbose_name_plural = "usage by month"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["month", "key_id", "user_id", "team_id", "model", "endpoint"],
                name="usage_month_unique",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"key {self.key_id}, {self.month:%Y-%m} UTC"


class StoredEvent(models.Model):
    """One event of telemetry at summary level, kept for `SKIPPY_TELEMETRY_RETENTION_DAYS`."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField("ended")
    name = models.CharField("event", max_length=100)
    request_id = models.CharField("request id", max_length=64, blank=True)
    elapsed_s = models.FloatField("length")
    attributes = models.JSONField("attributes", default=dict)
    is_aggregated = models.BooleanField("aggregated", default=False)

    class Meta:
        verbose_name = "event of telemetry"
        verbose_name_plural = "events of telemetry"
        indexes: ClassVar = [
            models.Index(fields=["-at", "-id"], name="event_time"),
            models.Index(fields=["request_id"], name="event_request"),
            models.Index(fields=["id"], name="event_pending", condition=models.Q(is_aggregated=False)),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.request_id}".rstrip()


class EventBucket(models.Model):
    """One hour's events of one name and detail (outcome, reason or action; empty where it has none)."""

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField("hour")
    name = models.CharField("event", max_length=100)
    detail = models.CharField("detail", max_length=100, blank=True)
    num_events = models.BigIntegerField("events")
    elapsed_counts = ArrayField(models.IntegerField(), help_text=_HISTOGRAM_NOTE)

    class Meta:
        verbose_name = "events of an hour"
        verbose_name_plural = "events by hour"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["hour", "name", "detail"], name="event_bucket_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.name}, {self.hour:%Y-%m-%d %H:00} UTC"
