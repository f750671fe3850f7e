"""A time cut into whole months or days, which few rows tell, and the hours between them, which many do.

Days and months are those of UTC. A series that is cut elsewhere (at a local midnight, where clocks change)
has no whole day where it is cut: there the hours tell to which side each belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Run = tuple[datetime, datetime]
"""From an instant to another one, which does not belong to it."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Spans:
    """Runs that follow each other in time and do not overlap: all of a time, each hour in one of them."""

    months: tuple[Run, ...]
    days: tuple[Run, ...]
    hours: tuple[Run, ...]

    @classmethod
    def of(
        cls, start: datetime, end: datetime, *, cuts: Sequence[datetime] = (), has_months: bool = False
    ) -> Spans:
        """`start`, `end` and `cuts` are full hours, aware. Nothing that is told as a whole has one of
        `cuts` inside. With `has_months` whole months are told apart."""
        start, end = start.astimezone(UTC), end.astimezone(UTC)
        cut_days = {_midnight(cut) for cut in cuts if cut.astimezone(UTC) != _midnight(cut)}
        first = _midnight(start)
        first = first if first == start else first + _DAY
        whole = _joined((day, day + _DAY) for day in _days(first, _midnight(end)) if day not in cut_days)
        months: list[Run] = []
        if has_months:
            cut_months = {_month_of(cut) for cut in cuts if cut.astimezone(UTC) != _month_of(cut)}
            months = _joined(one for run in whole for one in _months(*run) if one[0] not in cut_months)
        days = [part for run in whole for part in _between(*run, months)]
        return cls(tuple(months), tuple(days), tuple(_between(start, end, whole)))


def runs_condition(column: str, runs: Sequence[Run], given: dict[str, Any], name: str) -> str:
    """What a column must fulfil to lie in one of `runs`; the instants are put into `given` under `name`."""
    conditions = []
    for place, (begin, end) in enumerate(runs):
        given |= {f"{name}_{place}_from": begin, f"{name}_{place}_to": end}
        conditions.append(f"({column} >= %({name}_{place}_from)s AND {column} < %({name}_{place}_to)s)")
    return f"({' OR '.join(conditions) or 'false'})"


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _month_of(at: datetime) -> datetime:
    return _midnight(at).replace(day=1)


def _days(first: datetime, end: datetime) -> Iterator[datetime]:
    while first < end:
        yield first
        first += _DAY


def _months(first: datetime, end: datetime) -> Iterator[Run]:
    """The whole months between two midnights."""
    begin = first if first.day == 1 else _next_month(first)
    while (until := _next_month(begin)) <= end:
        yield begin, until
        begin = until


def _next_month(at: datetime) -> datetime:
    return (at.replace(day=1) + 32 * _DAY).replace(day=1)


def _joined(parts: Iterator[Run]) -> list[Run]:
    """Runs in their order, those that touch as one."""
    runs: list[Run] = []
    for begin, until in parts:
        if runs and runs[-1][1] == begin:
            runs[-1] = (runs[-1][0], until)
        else:
            runs.append((begin, until))
    return runs


def _between(start: datetime, end: datetime, runs: Sequence[Run]) -> Iterator[Run]:
    """What `runs`, in their order, leave of a time."""
    for begin, until in runs:
        if until <= start or begin >= end:
            continue
        if start < begin:
            yield start, begin
        start = until
    if start < end:
        yield start, end
