"""Lists in pages, newest first, by key set: a page costs the same however far back it lies.

`after` is the id of the last one of the page before; what is made meanwhile neither shifts a page nor
shows twice. Nothing is counted. The shape is that of OpenAI's lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.strict_serializer import StrictSerializer

DEFAULT_PAGE = 50
MAX_PAGE = 200
MAX_ID = 2**63 - 1


class IdField(serializers.IntegerField):
    """An id of a row, within what the database can hold."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(min_value=1, max_value=MAX_ID, **kwargs)


class PageQuery(StrictSerializer):
    """The query of a list; a list adds its filters."""

    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_PAGE, default=DEFAULT_PAGE, help_text="At most so many."
    )
    after = IdField(required=False, help_text="The last id of the page before.")


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, and whether there are more behind it."""

    rows: list[Any]
    has_more: bool

    def response(self, serializer: type[serializers.Serializer]) -> Response:
        return self.response_of(serializer(self.rows, many=True).data)

    def response_of(self, data: Any) -> Response:
        """With its rows as they are already shown."""
        return Response(
            {
                "object": "list",
                "data": data,
                "last_id": self.rows[-1].pk if self.rows else None,
                "has_more": self.has_more,
            }
        )


def query_of(request: Request, serializer: type[StrictSerializer]) -> dict[str, Any]:
    """The request's query, validated; a parameter that nobody reads is refused by name."""
    query = serializer(data=request.query_params.dict())
    query.is_valid(raise_exception=True)
    given: dict[str, Any] = query.validated_data
    return given


def page_of(rows: QuerySet[Any], query: dict[str, Any]) -> Page:
    if "after" in query:
        rows = rows.filter(pk__lt=query["after"])
    limit: int = query["limit"]
    found = list(rows.order_by("-pk")[: limit + 1])
    return Page(found[:limit], has_more=len(found) > limit)


def list_of(name: str, serializer: type[serializers.Serializer]) -> Any:
    """The schema of a list's answer."""
    return inline_serializer(
        name,
        {
            "object": serializers.ChoiceField(choices=["list"]),
            "data": serializer(many=True),
            "last_id": serializers.IntegerField(allow_null=True),
            "has_more": serializers.BooleanField(),
        },
    )
