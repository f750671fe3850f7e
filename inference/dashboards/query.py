"""What a page is asked for, in its address: days, zone, and whose, which and how it ended.

What cannot be read is told on the page (`problems`), and narrows nothing: the page says so, rather than show
something else in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, available_timezones

from inference.dashboards.period import MAX_DAYS, Period
from inference.dashboards.viewer import Viewer
from inference.usage.record_log import RecordFilter
from inference.usage.selectors import UsageOwner
from inference.usage.slices import UsageSlice

ZONE_COOKIE = "skippy_zone"
"""Set by the page's script to the browser's zone."""
PRESETS = (
    ("today", "Today"),
    ("yesterday", "Yesterday"),
    ("7d", "Last 7 days"),
    ("30d", "Last 30 days"),
    ("month", "This month"),
    ("last-month", "Last month"),
    ("custom", "From … to …"),
)
DEFAULT_PRESET = "7d"
_MAX_TEXT = 200
_MAX_ID = 2**63 - 1
_MAX_DIGITS = len(str(_MAX_ID))
_TEXTS = ("model", "endpoint", "outcome", "reason", "error_code", "request_id")
_IDS = ("team", "user", "key")
_DAYS_BACK = {"today": (0, 0), "yesterday": (1, 1), "7d": (6, 0), "30d": (29, 0)}


@cache
def zone_names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones() - {"localtime", "Factory"}))


class NameNotFound(Exception):
    """What was written where a team, a user or a key is named is none; the message says what to do."""


@dataclass(frozen=True, slots=True)
class QueryProblem:
    """What was not understood, and the form's field in which it stands."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    preset: str
    period: Period
    owner: UsageOwner
    texts: Mapping[str, str]
    problems: tuple[QueryProblem, ...]

    @property
    def slice(self) -> UsageSlice:
        return UsageSlice(
            range=self.period.range,
            owner=self.owner,
            model=self.texts.get("model"),
            endpoint=self.texts.get("endpoint"),
        )

    @property
    def filter(self) -> RecordFilter:
        return RecordFilter(self.period.start_at, self.period.end_at, self.owner, **self.texts)

    def parameters(self, **changed: str | None) -> str:
        """The address's query of the same page, with some of it changed (None: left out)."""
        period = self.period
        given: dict[str, Any] = {"range": self.preset, "zone": period.zone.key}
        if self.preset == "custom":
            given |= {"from": period.first.isoformat(), "to": period.last.isoformat()}
        owner = {"team": self.owner.team_id, "user": self.owner.user_id, "key": self.owner.key_id}
        given |= {name: value for name, value in owner.items() if value is not None}
        given |= self.texts
        given |= changed
        return urlencode({name: value for name, value in given.items() if value is not None})


def read_query(
    given: Mapping[str, str],
    viewer: Viewer,
    *,
    now: datetime,
    zone_of_browser: str = "",
    find: Callable[[Viewer, str, str], int] | None = None,
) -> DashboardQuery:
    """`find` looks up names of teams, users and keys. Raises PermissionDenied where it names whom the viewer
    may not see."""
    problems: list[QueryProblem] = []
    zone = _zone(given.get("zone", ""), zone_of_browser, problems)
    preset, first, last = _days(given, now.astimezone(zone).date(), problems)
    texts: dict[str, str] = {}
    for name in (*_IDS, *_TEXTS):
        text = given.get(name, "").strip()
        if len(text) > _MAX_TEXT or "\0" in text or not _is_unicode(text):
            told = f"“{name.replace('_', ' ')}” is too long, or no text; it was left out."
            problems.append(QueryProblem(name, told))
        elif text:
            texts[name] = text
    ids = {f"{name}_id": _id(name, texts.pop(name, ""), viewer, find, problems) for name in _IDS}
    return DashboardQuery(preset, Period(first, last, zone, now), viewer.owner(**ids), texts, tuple(problems))


def _id(
    kind: str,
    text: str,
    viewer: Viewer,
    find: Callable[[Viewer, str, str], int] | None,
    problems: list[QueryProblem],
) -> int | None:
    """Digits are an id, anything else a name."""
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) <= _MAX_ID:
        return int(text)
    if find is None:
        problems.append(QueryProblem(kind, f"“{kind}” is a number; it was left out."))
        return None
    try:
        return find(viewer, kind, text)
    except NameNotFound as none:
        problems.append(QueryProblem(kind, f"{none} It was left out."))
        return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which no database takes
        return False
    return True


def _zone(asked: str, of_browser: str, problems: list[QueryProblem]) -> ZoneInfo:
    names = set(zone_names())
    if asked in names:
        return ZoneInfo(asked)
    if asked:
        told = "There is no such time zone; it is shown in UTC. Zones are named like Europe/Berlin."
        problems.append(QueryProblem("zone", told))
        return ZoneInfo("UTC")
    return ZoneInfo(of_browser if of_browser in names else "UTC")


def _days(given: Mapping[str, str], today: date, problems: list[QueryProblem]) -> tuple[str, date, date]:
    preset = given.get("range", DEFAULT_PRESET)
    if preset == "custom":
        try:
            first, last = (date.fromisoformat(given.get(name, "")) for name in ("from", "to"))
            # Near the ends of the calendar there is no day before or behind.
            if first <= last < first + timedelta(days=MAX_DAYS) and first.year >= 2000 and last.year <= 2200:
                return preset, first, last
        except (ValueError, OverflowError):
            pass
        told = f"Give two days, the first one first, at most {MAX_DAYS // 366} years apart."
        problems.append(QueryProblem("range", told))
    elif preset == "month":
        return preset, today.replace(day=1), today
    elif preset == "last-month":
        last = today.replace(day=1) - timedelta(days=1)
        return preset, last.replace(day=1), last
    elif preset not in _DAYS_BACK:
        problems.append(QueryProblem("range", "There is no such choice of days."))
    preset = preset if preset in _DAYS_BACK else DEFAULT_PRESET
    back_to, until = _DAYS_BACK[preset]
    return preset, today - timedelta(days=back_to), today - timedelta(days=until)
