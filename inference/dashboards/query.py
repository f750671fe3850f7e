"""What a page is asked for, in its address: days, zone, and whose, which and how it ended.

What cannot be read is told on the page (`problems`), and narrows nothing: the page says so, rather than show
something else in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
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
_TEXTS = ("model", "endpoint", "outcome", "reason", "error_code", "request_id")
_IDS = ("team", "user", "key")
_DAYS_BACK = {"today": (0, 0), "yesterday": (1, 1), "7d": (6, 0), "30d": (29, 0)}


@cache
def zone_names() -> tuple[str, ...]:
    return tuple(sorted(available_timezones() - {"localtime", "Factory"}))


@dataclass(frozen=True, slots=True)
class DashboardQuery:
    preset: str
    period: Period
    owner: UsageOwner
    texts: Mapping[str, str]
    problems: tuple[str, ...]

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
    given: Mapping[str, str], viewer: Viewer, *, now: datetime, zone_of_browser: str = ""
) -> DashboardQuery:
    """Raises PermissionDenied where it names whom the viewer may not see."""
    problems: list[str] = []
    zone = _zone(given.get("zone", ""), zone_of_browser, problems)
    preset, first, last = _days(given, now.astimezone(zone).date(), problems)
    ids: dict[str, int | None] = {}
    for name in _IDS:
        text = given.get(name, "").strip()
        is_id = text.isascii() and text.isdigit() and int(text[:20]) <= _MAX_ID
        if text and not is_id:
            problems.append(f"“{name}” is a number; it was left out.")
        ids[f"{name}_id"] = int(text) if text and is_id else None
    texts: dict[str, str] = {}
    for name in _TEXTS:
        text = given.get(name, "").strip()
        if len(text) > _MAX_TEXT or "\0" in text:
            problems.append(f"“{name.replace('_', ' ')}” is too long, or no text; it was left out.")
        elif text:
            texts[name] = text
    return DashboardQuery(preset, Period(first, last, zone, now), viewer.owner(**ids), texts, tuple(problems))


def _zone(asked: str, of_browser: str, problems: list[str]) -> ZoneInfo:
    names = set(zone_names())
    if asked in names:
        return ZoneInfo(asked)
    if asked:
        problems.append("There is no such time zone; it is shown in UTC.")
        return ZoneInfo("UTC")
    return ZoneInfo(of_browser if of_browser in names else "UTC")


def _days(given: Mapping[str, str], today: date, problems: list[str]) -> tuple[str, date, date]:
    preset = given.get("range", DEFAULT_PRESET)
    if preset == "custom":
        try:
            first, last = (date.fromisoformat(given.get(name, "")) for name in ("from", "to"))
            # Near the ends of the calendar there is no day before or behind.
            if first <= last < first + timedelta(days=MAX_DAYS) and first.year >= 2000 and last.year <= 2200:
                return preset, first, last
        except (ValueError, OverflowError):
            pass
        problems.append(f"Give two days, the first one first, at most {MAX_DAYS} days apart.")
    elif preset == "month":
        return preset, today.replace(day=1), today
    elif preset == "last-month":
        last = today.replace(day=1) - timedelta(days=1)
        return preset, last.replace(day=1), last
    elif preset not in _DAYS_BACK:
        problems.append("There is no such range.")
    preset = preset if preset in _DAYS_BACK else DEFAULT_PRESET
    back_to, until = _DAYS_BACK[preset]
    return preset, today - timedelta(days=back_to), today - timedelta(days=until)
