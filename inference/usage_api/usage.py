"""/api/usage: the report of GET /v1/usage for any key, user, team or everybody, and its CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from channels.db import database_sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from inference.domain.usage import BucketWidth
from inference.openai.usage_query import UsageFormat, parse_usage_query
from inference.openai.usage_report import CSV_COLUMNS, csv_header, csv_lines, usage_report_body
from inference.usage.desk import ROWS_A_PAGE
from inference.usage.selectors import records_paged, usage_latencies, usage_report
from inference.usage_api.owner import OWNER_FIELDS, USAGE_SCOPES, owner_fields, usage_owner

# Who it was comes first; then the columns of a key's own CSV.
_OWN_FIELDS = (*OWNER_FIELDS, "latencies")
_COLUMNS = (("user_id", "user_id"), ("user", "username"), ("key_id", "key_id"), ("team_id", "team_id"))


class OwnUsageQuery(StrictSerializer):
    """What is asked for here alone; the rest is read as under /v1/usage."""

    latencies = serializers.BooleanField(
        default=False, help_text="How long requests took; costs more than all the rest for many keys."
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        return {**super().get_fields(), **owner_fields()}


class UsageQuery(OwnUsageQuery):
    """For the document alone: all of it together."""

    start = serializers.CharField(required=False)
    end = serializers.CharField(required=False)
    bucket = serializers.ChoiceField(choices=[width.value for width in BucketWidth], required=False)
    time_zone = serializers.CharField(default="UTC")
    format = serializers.ChoiceField(choices=[form.value for form in UsageFormat], required=False)


class UsageView(ManagementView):
    scopes: ClassVar = {"GET": USAGE_SCOPES}

    @extend_schema(
        operation_id="getUsage",
        tags=["usage"],
        summary="What was used, as a report or as CSV",
        parameters=[UsageQuery],
        responses={(200, "application/json"): OpenApiTypes.OBJECT, (200, "text/csv"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse | StreamingHttpResponse:
        given = list(request.query_params.items())
        asked = OwnUsageQuery(data={name: value for name, value in given if name in _OWN_FIELDS})
        asked.is_valid(raise_exception=True)
        owner = usage_owner(self.caller, asked.validated_data)
        rest = urlencode([pair for pair in given if pair[0] not in _OWN_FIELDS])
        query = parse_usage_query(rest, now=datetime.now(UTC))
        if query.format is UsageFormat.JSON:
            wants_latencies = asked.validated_data["latencies"]
            latencies = usage_latencies(owner=owner, range=query.range) if wants_latencies else None
            body = usage_report_body(usage_report(owner=owner, range=query.range), latencies)
            return HttpResponse(body, content_type="application/json", headers={"Cache-Control": "no-store"})
        columns = [field for _, field in (*_COLUMNS, *CSV_COLUMNS)]
        pages = records_paged(owner=owner, range=query.range, columns=columns, page_size=ROWS_A_PAGE)
        return StreamingHttpResponse(
            _csv(pages),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="usage.csv"', "Cache-Control": "no-store"},
        )


async def _csv(pages: Iterator[list[tuple[Any, ...]]]) -> AsyncIterator[bytes]:
    """Each page is read on a thread, with a connection that it then gives back."""
    take: Any = database_sync_to_async(next, thread_sensitive=False)
    yield csv_lines([[name for name, _ in _COLUMNS]]).rstrip(b"\r\n") + b"," + csv_header()
    while (page := await take(pages, None)) is not None:
        yield csv_lines(page)
