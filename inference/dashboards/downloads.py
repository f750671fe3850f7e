"""The same as CSV: a period's series, its parts, and the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from channels.db import database_sync_to_async
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from inference.dashboards.names import key_names, team_names, user_names
from inference.dashboards.overview import parts_for, portions_of
from inference.dashboards.viewer import Viewer, console_page
from inference.dashboards.views import query_of
from inference.openai.usage_report import CSV_COLUMNS, csv_lines
from inference.usage.breakdowns import slice_latencies, slice_overview
from inference.usage.desk import ROWS_A_PAGE
from inference.usage.record_log import record_pages
from inference.usage.slices import SliceTotals

_TOTALS = (
    ("requests", "num_requests"),
    ("not_completed", "num_unfinished"),
    ("input_tokens", "num_input_tokens"),
    ("cached_tokens", "num_cached_tokens"),
    ("output_tokens", "num_output_tokens"),
    ("spend", "spend"),
)
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_WHO = (
    ("user_id", "user_id"),
    ("user", "username"),
    ("key_id", "key_id"),
    ("key", "key_name"),
    ("team_id", "team_id"),
)
_LOG = (*_WHO, *CSV_COLUMNS)


@console_page
def usage_csv(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    query = query_of(request, viewer)
    starts = query.period.starts
    found = slice_overview(slice=query.slice, starts=starts)
    latencies = slice_latencies(slice=query.slice, starts=starts)
    timed = [f"{kind}_{name}" for kind in ("first_token_s", "total_s") for name, _ in _QUANTILES]
    rows: list[list[Any]] = [["start", *(name for name, _ in _TOTALS), *timed]]
    for start, totals, report in zip(starts, found.series, latencies, strict=True):
        quantiles = [
            one.quantile_s(share) for one in (report.first_token, report.total) for _, share in _QUANTILES
        ]
        rows.append([start.isoformat(), *_counts(totals), *quantiles])
    return _file("usage.csv", csv_lines(rows))


@console_page
def parts_csv(request: HttpRequest, viewer: Viewer, kind: str) -> HttpResponse:
    if kind not in parts_for(viewer):
        raise Http404
    portions = portions_of(kind, query_of(request, viewer))
    values = [portion.value for portion in portions]
    names: dict[Any, str] = {}
    if kind == "teams":
        names = dict(team_names(values))
    elif kind == "users":
        names = dict(user_names(values))
    elif kind == "keys":
        names = dict(key_names(values))
    rows: list[list[Any]] = [[kind.removesuffix("s"), "name", *(name for name, _ in _TOTALS)]]
    rows += [
        [portion.value, names.get(portion.value, portion.value), *_counts(portion.totals)]
        for portion in portions
    ]
    return _file(f"{kind}.csv", csv_lines(rows))


@console_page
def log_csv(request: HttpRequest, viewer: Viewer) -> StreamingHttpResponse:
    pages = record_pages(filter=query_of(request, viewer).filter, page_size=ROWS_A_PAGE)
    return StreamingHttpResponse(
        _log_lines(pages),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="requests.csv"'},
    )


async def _log_lines(pages: Iterator[tuple[Any, ...]]) -> AsyncIterator[bytes]:
    """Each page is read on a thread, with a connection that it then gives back."""
    take: Any = database_sync_to_async(next, thread_sensitive=False)
    yield csv_lines([[name for name, _ in _LOG]])
    while (page := await take(pages, None)) is not None:
        yield csv_lines([[getattr(record, field) for _, field in _LOG] for record in page])


def _counts(totals: SliceTotals) -> list[Any]:
    return [getattr(totals, field) for _, field in _TOTALS]


def _file(name: str, body: bytes) -> HttpResponse:
    return HttpResponse(
        body,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
