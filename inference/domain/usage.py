"""What was used: tokens and requests over a time, cut into hours, days or months of a time zone.

Usage is kept by full hours in UTC, which is what can be added up. A local day is the hours that begin
in it: it has 23, 24 or 25 of them, each hour belongs to exactly one day, and so days always add up to
the whole. (Where a zone's offset is not whole hours, the hour that contains its midnight belongs to
the day in which it begins.) Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from inference.domain.latency_histogram import LatencyHistogram

HOUR = timedelta(hours=1)


class BucketWidth(Enum):
    """Into what a report is cut."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Counts that can be added. Cached tokens are a part of the input's, reasoning tokens of the
    output's; injected ones are in neither."""

    num_requests: int = 0
    num_input_tokens: int = 0
    num_cached_tokens: int = 0
    num_output_tokens: int = 0
    num_reasoning_tokens: int = 0
    num_injected_tokens: int = 0

    @property
    def num_total_tokens(self) -> int:
        return self.num_input_tokens + self.num_output_tokens

    def __add__(self, other: UsageTotals) -> UsageTotals:
        return UsageTotals(
            *(getattr(self, one.name) + getattr(other, one.name) for one in fields(UsageTotals))
        )


@dataclass(frozen=True, slots=True)
class UsageRange:
    """Which hours are asked for, and how they are cut. Instants are aware; `start_at` None is the
    beginning, `end_at` (exclusive) None is now; `width` None asks for the totals alone.

    Hours count as a whole: the start is moved back and the end forward to a full hour in UTC.
    """

    start_at: datetime | None = None
    end_at: datetime | None = None
    width: BucketWidth | None = None
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))

    @property
    def start_hour(self) -> datetime | None:
        return None if self.start_at is None else full_hour(self.start_at)

    @property
    def end_hour(self) -> datetime | None:
        if self.end_at is None:
            return None
        floor = full_hour(self.end_at)
        return floor if floor == self.end_at else floor + HOUR


@dataclass(frozen=True, slots=True)
class UsageBucketTotals:
    """The totals of one hour, day or month, which begins at `start_at` and ends before `end_at`, both in
    the report's time zone."""

    start_at: datetime
    end_at: datetime
    totals: UsageTotals


@dataclass(frozen=True, slots=True)
class LatencyReport:
    """How long requests took, of those that got so far: to a lane, to the first token, from token to
    token (mean of a request), to the end."""

    queue: LatencyHistogram = field(default_factory=LatencyHistogram)
    first_token: LatencyHistogram = field(default_factory=LatencyHistogram)
    per_token: LatencyHistogram = field(default_factory=LatencyHistogram)
    total: LatencyHistogram = field(default_factory=LatencyHistogram)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Everything about a range. `buckets` are those with requests, in order; their totals add up to
    `totals`, and so do those of the outcomes."""

    range: UsageRange
    totals: UsageTotals
    by_outcome: tuple[tuple[str, UsageTotals], ...] = ()
    buckets: tuple[UsageBucketTotals, ...] = ()


def full_hour(at: datetime) -> datetime:
    """The full hour in UTC in which an aware instant lies."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def bucket_bounds(hour: datetime, *, width: BucketWidth, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Beginning and end of the bucket that an hour (aware, full in UTC) belongs to, in the zone.

    Hours are UTC's: when clocks go back, the two hours that are called the same stay two.
    """
    local = hour.astimezone(zone)
    match width:
        case BucketWidth.HOUR:
            return local, (hour.astimezone(UTC) + HOUR).astimezone(zone)
        case BucketWidth.DAY:
            first, following = local.date(), local.date() + timedelta(days=1)
        case BucketWidth.MONTH:
            first = local.date().replace(day=1)
            following = (first + timedelta(days=31)).replace(day=1)
    return _midnight(first, zone), _midnight(following, zone)


def bucket_starts(start: datetime, end: datetime, *, width: BucketWidth, zone: ZoneInfo) -> list[datetime]:
    """The beginnings, in the zone, of all buckets that have hours of [start, end) (full hours, aware)."""
    starts: list[datetime] = []
    at = start
    while at < end:
        first, following = bucket_bounds(at, width=width, zone=zone)
        starts.append(first)
        # In UTC: where clocks go back, an hour of a zone is never equal to one of another.
        behind = following.astimezone(UTC)
        at = behind if behind == full_hour(behind) else full_hour(behind) + HOUR
    return starts


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    """The first instant of a day. Where clocks skip midnight, it is the first that there is: the way
    through UTC gives it its true name."""
    return datetime.combine(day, time(), zone).astimezone(UTC).astimezone(zone)
