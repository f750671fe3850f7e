"""What stands on a dashboard: numbers and how they have changed, charts with their tables, lists of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.domain.latency_histogram import LatencyHistogram
from inference.usage.breakdowns import Portion
from inference.usage.slices import SliceTotals

QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_LARGE = ((1e12, "T"), (1e9, "B"), (1e6, "M"))


@dataclass(frozen=True, slots=True)
class Card:
    """One number. `change` is against the period before, in words; empty where there was nothing."""

    title: str
    value: str
    note: str = ""
    change: str = ""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """`values` has one entry for each label of its chart, None where there is nothing to say."""

    title: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """`kind` is "lines" or "bars"; `unit` ("count", "seconds" or "money") says how values are written."""

    name: str
    title: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    lines: tuple[ChartLine, ...]

    @property
    def data(self) -> dict[str, Any]:
        """As the page's script reads it."""
        return {
            "kind": self.kind,
            "unit": self.unit,
            "labels": self.labels,
            "lines": [{"title": line.title, "values": line.values} for line in self.lines],
        }

    @property
    def script_id(self) -> str:
        """Of the element that has the data."""
        return f"data-{self.name}"

    @property
    def is_empty(self) -> bool:
        return not any(value for line in self.lines for value in line.values)

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """The same as a table, in the order of the labels."""
        write = WRITERS[self.unit]
        return [
            (label, [write(line.values[place]) for line in self.lines])
            for place, label in enumerate(self.labels)
        ]


@dataclass(frozen=True, slots=True)
class PartRow:
    name: str
    totals: SliceTotals
    share: float
    address: str = ""


@dataclass(frozen=True, slots=True)
class PartList:
    """The largest parts of one kind. `more` is the address of the whole list, where there is one."""

    name: str
    title: str
    rows: tuple[PartRow, ...] = ()
    num_left_out: int = 0
    more: str = ""
    empty: str = "Nothing in this period."
    has_spend: bool = field(default=False)


def part_list(
    name: str,
    title: str,
    portions: Sequence[Portion],
    *,
    name_of: Callable[[Any], str] = str,
    address_of: Callable[[Any], str] = lambda value: "",
    max_rows: int = 8,
    **rest: Any,
) -> PartList:
    whole = sum(portion.totals.num_requests for portion in portions) or 1
    rows = tuple(
        PartRow(
            name_of(portion.value) or "(none)",
            portion.totals,
            portion.totals.num_requests / whole,
            address_of(portion.value),
        )
        for portion in portions[:max_rows]
    )
    return PartList(name, title, rows, max(0, len(portions) - max_rows), **rest)


def quantile_lines(histograms: Iterable[LatencyHistogram]) -> tuple[ChartLine, ...]:
    found = list(histograms)
    return tuple(ChartLine(name, tuple(one.quantile_s(share) for one in found)) for name, share in QUANTILES)


def count_text(value: float | None) -> str:
    """1,234 in full, 56.7 M where there is more; a dash where there is nothing to say."""
    if value is None:
        return "–"
    for size, letter in _LARGE:
        if value >= size:
            return f"{value / size:,.2f} {letter}"
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.1f}"


def seconds_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:,.0f} ms"
    return f"{value:,.2f} s" if value < 100 else f"{value:,.0f} s"


def money_text(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:,.4f}"


def share_text(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def change_text(now: float | None, before: float | None) -> str:
    if not before or now is None:
        return ""
    percent = round(100 * (now - before) / before)
    return f"{percent:+,} % on the period before" if percent else "as in the period before"


WRITERS: dict[str, Callable[[float | None], str]] = {
    "count": count_text,
    "seconds": seconds_text,
    "money": money_text,
}
