"""The days that a page is about, in the viewer's time zone.

Usage is kept by hours of UTC, and an hour belongs to the day in which it begins (inference/domain/usage.py);
so a period begins with the first hour that begins in its first day, and periods that follow each other have
each hour once, also where clocks change.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

from inference.domain.usage import HOUR, BucketWidth, UsageRange, bucket_starts, full_hour

MAX_DAYS = 5 * 366
_MAX_DAYS_BY_HOURS = 3
_MAX_DAYS_BY_DAYS = 100
_LABELS = {BucketWidth.HOUR: "%d %b %H:%M", BucketWidth.DAY: "%a %d %b %Y", BucketWidth.MONTH: "%B %Y"}


@dataclass(frozen=True)
class Period:
    """From the beginning of `first` to the end of `last`, both included; `now` is aware."""

    first: date
    last: date
    zone: ZoneInfo
    now: datetime

    def __post_init__(self) -> None:
        if not 0 < self.num_days <= MAX_DAYS:
            raise ValueError(f"a period has 1 to {MAX_DAYS} days")

    @property
    def num_days(self) -> int:
        return (self.last - self.first).days + 1

    @cached_property
    def start_at(self) -> datetime:
        return first_hour_of(self.first, self.zone)

    @cached_property
    def end_at(self) -> datetime:
        return first_hour_of(self.last + timedelta(days=1), self.zone)

    @property
    def width(self) -> BucketWidth:
        if self.num_days <= _MAX_DAYS_BY_HOURS:
            return BucketWidth.HOUR
        return BucketWidth.DAY if self.num_days <= _MAX_DAYS_BY_DAYS else BucketWidth.MONTH

    @property
    def range(self) -> UsageRange:
        return UsageRange(self.start_at, self.end_at, self.width, self.zone)

    @cached_property
    def starts(self) -> tuple[datetime, ...]:
        """Where its hours, days or months begin, those of the future left out."""
        end = min(self.end_at, max(self.start_at + HOUR, full_hour(self.now) + HOUR))
        return tuple(bucket_starts(self.start_at, end, width=self.width, zone=self.zone))

    def lengths_s(self) -> tuple[float, ...]:
        """How long each of `starts` has lasted so far, in seconds; a second at least."""
        # In UTC: between two times of one zone Python subtracts what clocks say.
        starts = [max(start.astimezone(UTC), self.start_at) for start in self.starts]
        ends = [*starts[1:], min(self.end_at, self.now)]
        return tuple(max(1.0, (end - start).total_seconds()) for start, end in zip(starts, ends, strict=True))

    def label(self, start: datetime) -> str:
        return start.strftime(_LABELS[self.width])

    def before(self) -> UsageRange:
        """As many days before, and of them no more than has passed of these by now."""
        start = first_hour_of(self.first - timedelta(days=self.num_days), self.zone)
        passed = min(self.end_at, full_hour(self.now) + HOUR) - self.start_at
        return UsageRange(start, min(self.start_at, start + max(passed, HOUR)))


def first_hour_of(day: date, zone: ZoneInfo) -> datetime:
    """The first full hour (UTC) that begins in a local day, or with it."""
    midnight = datetime.combine(day, time(), zone).astimezone(UTC)
    floor = full_hour(midnight)
    return floor if floor == midnight else floor + HOUR
