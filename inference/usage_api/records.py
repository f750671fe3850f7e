"""/api/records: one line for each request, newest first; no text of prompts or answers."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import DEFAULT_PAGE, MAX_PAGE, query_of
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from inference.models import GenerationRecord
from inference.usage_api.owner import USAGE_SCOPES, owner_fields, usage_owner


class RecordSerializer(serializers.ModelSerializer):
    class Meta:
        model = GenerationRecord
        fields: ClassVar = [field.name for field in GenerationRecord._meta.concrete_fields]
        read_only_fields: ClassVar = fields


class RecordQuery(StrictSerializer):
    """Filters are those for which there is an index, so that no query reads more than it shows."""

    limit = serializers.IntegerField(min_value=1, max_value=MAX_PAGE, default=DEFAULT_PAGE)
    after = serializers.UUIDField(required=False, help_text="The last id of the page before.")
    start = serializers.DateTimeField(required=False, help_text="Arrived then or later.")
    end = serializers.DateTimeField(required=False, help_text="Arrived before then.")
    request_id = serializers.UUIDField(required=False)

    def get_fields(self) -> dict[str, serializers.Field]:
        return {**super().get_fields(), **owner_fields()}


class RecordsView(ManagementView):
    scopes: ClassVar = {"GET": USAGE_SCOPES}

    @extend_schema(
        operation_id="listRecords",
        tags=["usage"],
        summary="Records of requests, newest first",
        parameters=[RecordQuery],
        responses=inline_serializer(
            "RecordList",
            {
                "object": serializers.ChoiceField(choices=["list"]),
                "data": RecordSerializer(many=True),
                "last_id": serializers.UUIDField(allow_null=True),
                "has_more": serializers.BooleanField(),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, RecordQuery)
        rows = GenerationRecord.objects.filter(**usage_owner(self.caller, query).columns)
        if "start" in query:
            rows = rows.filter(created_at__gte=query["start"])
        if "end" in query:
            rows = rows.filter(created_at__lt=query["end"])
        if "request_id" in query:
            rows = rows.filter(request_id=str(query["request_id"]))
        if "after" in query:
            rows = _behind(rows, query["after"])
        limit: int = query["limit"]
        found: list[Any] = list(rows.order_by("-created_at", "-id")[: limit + 1])
        page = found[:limit]
        return Response(
            {
                "object": "list",
                "data": RecordSerializer(page, many=True).data,
                "last_id": page[-1].pk if page else None,
                "has_more": len(found) > limit,
            }
        )


def _behind(rows: QuerySet[GenerationRecord], record_id: UUID) -> QuerySet[GenerationRecord]:
    """The rows after this one, which must be one of them: whose record it is, is nobody else's business."""
    created_at = rows.filter(pk=record_id).values_list("created_at", flat=True).first()
    if created_at is None:
        raise ValidationError({"after": "There is no such record in this list."})
    # The first condition says nothing new, but is one that an index knows how to start at.
    return rows.filter(created_at__lte=created_at).exclude(created_at=created_at, id__gte=record_id)
