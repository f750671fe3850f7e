"""How numbers are written, and that a chart and its table say the same."""

from __future__ import annotations

import pytest

from inference.dashboards import figures
from inference.dashboards.figures import Chart, ChartLine, part_list
from inference.domain.latency_histogram import LatencyHistogram
from inference.usage.breakdowns import Portion
from inference.usage.slices import SliceTotals


@pytest.mark.parametrize(
    ("write", "value", "told"),
    [
        (figures.count_text, None, "–"),
        (figures.count_text, 0, "0"),
        (figures.count_text, 9999, "9,999"),
        (figures.count_text, 12_345, "12,345"),
        (figures.count_text, 5_600_000_000_000_000, "5,600.00 T"),
        (figures.count_text, 48.27, "48.3"),
        (figures.seconds_text, 0.0123, "12 ms"),
        (figures.seconds_text, 1.5, "1.50 s"),
        (figures.seconds_text, 1234.0, "1,234 s"),
        (figures.money_text, 0.0123, "0.0123"),
        (figures.money_text, 1234.5, "1,234.50"),
        (figures.money_text, 0, "0.00"),
    ],
)
def test_numbers(write, value, told) -> None:
    assert write(value) == told


def test_a_change_is_told_where_there_was_something() -> None:
    assert figures.change_text(150, 100) == "+50 % on the period before"
    assert figures.change_text(50, 100).startswith("-50 %")
    for now, before in ((1, 0), (1, None), (None, 1)):
        assert figures.change_text(now, before) == ""


def test_a_chart_and_its_table_say_the_same() -> None:
    chart = Chart("x", "X", "lines", "seconds", ("a", "b"), (ChartLine("p50", (0.5, None)),))
    assert chart.rows == [("a", ["500 ms"]), ("b", ["–"])]
    assert chart.data["lines"] == [{"title": "p50", "values": (0.5, None)}]
    assert not chart.is_empty
    assert Chart("x", "X", "bars", "count", ("a",), (ChartLine("n", (0,)),)).is_empty


def test_quantiles_of_nothing_are_nothing() -> None:
    lines = figures.quantile_lines([LatencyHistogram(), LatencyHistogram.of([0.2])])
    assert [line.title for line in lines] == ["p50", "p95", "p99"]
    assert all(line.values[0] is None and 0.1 < line.values[1] < 0.3 for line in lines)


def test_the_largest_parts_have_their_share_of_all() -> None:
    portions = [Portion(f"m{number}", SliceTotals(num_requests=10)) for number in range(10)]
    found = part_list("models", "Models", portions, max_rows=3)
    assert [row.share for row in found.rows] == [0.1] * 3
    assert found.num_left_out == 7
