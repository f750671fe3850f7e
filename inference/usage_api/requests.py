"""/api/requests: what runs or waits now, in all server processes, and the end of one of it."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import query_of
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from accounts.scopes import Scope
from inference.domain.errors import NotFound, ServiceUnavailable
from inference.domain.live_requests import LivePhase
from inference.ledger.live_desk import live_request_cancel, live_requests_list
from inference.usage_api.owner import USAGE_SCOPES, owner_fields, usage_owner


class LiveRequestSerializer(serializers.Serializer):
    """`phase_s` and `total_s` are seconds, in this phase and in all. Tokens are those so far; the prompt's
    count once it has a lane."""

    record_id = serializers.UUIDField()
    request_id = serializers.CharField()
    created_at = serializers.DateTimeField()
    endpoint = serializers.CharField()
    model = serializers.CharField()
    user_id = serializers.IntegerField()
    username = serializers.CharField()
    key_id = serializers.IntegerField()
    key_name = serializers.CharField()
    team_id = serializers.IntegerField(allow_null=True)
    team_name = serializers.CharField()
    is_stream = serializers.BooleanField()
    priority = serializers.CharField()
    phase = serializers.ChoiceField(choices=[phase.value for phase in LivePhase], source="phase.value")
    phase_s = serializers.FloatField()
    total_s = serializers.FloatField()
    max_tokens = serializers.IntegerField()
    num_input_tokens = serializers.IntegerField()
    num_output_tokens = serializers.IntegerField()


class LiveRequestQuery(StrictSerializer):
    def get_fields(self) -> dict[str, serializers.Field]:
        return {**super().get_fields(), **owner_fields()}


class LiveRequestsView(ManagementView):
    scopes: ClassVar = {"GET": USAGE_SCOPES}

    @extend_schema(
        operation_id="listRequests",
        tags=["requests"],
        summary="What runs or waits now, oldest first",
        parameters=[LiveRequestQuery],
        responses=inline_serializer(
            "LiveRequestList",
            {
                "object": serializers.ChoiceField(choices=["list"]),
                "data": LiveRequestSerializer(many=True),
                "num_servers": serializers.IntegerField(),
                "num_silent_servers": serializers.IntegerField(),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        wanted = usage_owner(self.caller, query_of(request, LiveRequestQuery)).columns
        found = live_requests_list()
        shown = [
            one
            for one in found.requests
            if all(getattr(one, name) == value for name, value in wanted.items())
        ]
        return Response(
            {
                "object": "list",
                "data": LiveRequestSerializer(shown, many=True).data,
                "num_servers": found.num_servers,
                "num_silent_servers": found.num_silent,
            }
        )


class RequestCancellationView(ManagementView):
    """With `keys` anybody's request, with `keys_own` those of the caller's own user."""

    scopes: ClassVar = {"POST": frozenset({Scope.KEYS, Scope.KEYS_OWN})}

    @extend_schema(
        operation_id="cancelRequest",
        tags=["requests"],
        summary="End a request; its client is told `request_cancelled`",
        request=StrictSerializer,
        responses=LiveRequestSerializer,
    )
    def post(self, request: Request, record_id: str) -> Response:
        StrictSerializer(data=request.data).is_valid(raise_exception=True)
        user_id: Any = None if self.caller.has(Scope.KEYS) else self.caller.user_id
        cancelled = live_request_cancel(record_id=UUID(record_id), user_id=user_id)
        if cancelled.request is not None:
            return Response(LiveRequestSerializer(cancelled.request).data)
        if cancelled.num_silent:
            raise ServiceUnavailable(
                f"{cancelled.num_silent} of {cancelled.num_servers} server processes did not answer, and the "
                "others do not have this request. Please retry shortly."
            )
        raise NotFound("No such request runs or waits: it has ended, or never was, or is not yours.")
