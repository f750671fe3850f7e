"""The parameters of GET /v1/usage: which time, how it is cut, and in which form it is wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from enum import Enum
from functools import cache
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo, available_timezones

from inference.domain.errors import InvalidRequest
from inference.domain.usage import HOUR, BucketWidth, UsageRange

MAX_HOURLY_HOURS = 24 * 366
"""By hours, a year at most: an answer of a megabyte or two."""
_PARAMETERS = ("start", "end", "bucket", "time_zone", "format")
_UNIX_SECONDS = re.compile(r"[0-9]{1,11}", re.ASCII)
"""Until the year 5138."""


class UsageFormat(Enum):
    """A report, or the requests one by one."""

    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class UsageQuery:
    range: UsageRange
    format: UsageFormat = UsageFormat.JSON


def parse_usage_query(query: str, *, now: datetime) -> UsageQuery:
    """Read a query string. Raises InvalidRequest naming the parameter at fault: one that is wrong, comes
    twice or is not known, for a report about another time than was meant would look right."""
    given: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=20)
    except ValueError:
        raise InvalidRequest("The query string cannot be read.") from None
    for name, value in pairs:
        if name not in _PARAMETERS:
            shown = "".join(c if c.isprintable() else "?" for c in name[:50])
            raise InvalidRequest(
                f"Unknown parameter '{shown}'; there are {', '.join(_PARAMETERS)}.", param=shown
            )
        if name in given:
            raise InvalidRequest(f"The parameter '{name}' comes twice.", param=name)
        given[name] = value
    zone = _zone(given.get("time_zone") or "UTC")
    start_at = _instant(given, "start", zone)
    end_at = _instant(given, "end", zone)
    if start_at is not None and end_at is not None and end_at <= start_at:
        raise InvalidRequest("Invalid 'end': it must be later than 'start'.", param="end")
    width = BucketWidth(_word(given["bucket"], "bucket", BucketWidth)) if given.get("bucket") else None
    if width is BucketWidth.HOUR and (
        start_at is None or (end_at or now) - start_at > MAX_HOURLY_HOURS * HOUR
    ):
        raise InvalidRequest(
            "Invalid 'bucket': by hours, at most a year can be asked for; give 'start'.", param="bucket"
        )
    form = UsageFormat(_word(given["format"], "format", UsageFormat)) if given.get("format") else None
    return UsageQuery(UsageRange(start_at, end_at, width, zone), form or UsageFormat.JSON)


def _instant(given: dict[str, str], name: str, zone: ZoneInfo) -> datetime | None:
    """Unix seconds, a date, or a date and time; the zone is the given one where none is written."""
    text = given.get(name, "").strip()
    if not text:
        return None
    try:
        if _UNIX_SECONDS.fullmatch(text):
            return datetime.fromtimestamp(int(text), UTC)
        # A plus sign that was not escaped arrives as a space.
        text = text.replace(" ", "+") if "T" in text else text
        if len(text) == len("2026-01-01"):
            return _usable(datetime.combine(date.fromisoformat(text), time(), zone))
        at = datetime.fromisoformat(text)
        return _usable(at if at.tzinfo is not None else at.replace(tzinfo=zone))
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"Invalid '{name}': expected Unix seconds, a date (2026-01-31) or a date and time "
            "(2026-01-31T12:00:00+01:00).",
            param=name,
        ) from None


def _usable(at: datetime) -> datetime:
    """Far enough from the ends of the calendar that hours can be added. Raises ValueError."""
    in_utc = at.astimezone(UTC)
    if not 1970 <= in_utc.year <= 9998:
        raise ValueError("out of range")
    return in_utc


def _zone(name: str) -> ZoneInfo:
    if name not in _zone_names():
        raise InvalidRequest(
            "Invalid 'time_zone': expected a name of the IANA database, such as Europe/Berlin.",
            param="time_zone",
        )
    return ZoneInfo(name)


@cache
def _zone_names() -> frozenset[str]:
    """Only these are looked up: a name is a path to a file as well."""
    return frozenset(available_timezones())


def _word(value: str, name: str, words: type[Enum]) -> str:
    allowed = [str(word.value) for word in words]
    if value not in allowed:
        raise InvalidRequest(f"Invalid '{name}': expected {' or '.join(allowed)}.", param=name)
    return value
