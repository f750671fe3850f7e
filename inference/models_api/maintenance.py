"""/api/maintenance: whether the service is closed to new requests, and closing and opening it."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import IdField
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from accounts.scopes import Scope
from inference.maintenance.selectors import maintenance_get
from inference.maintenance.services import MaintenancePlan, maintenance_begin, maintenance_end
from inference.models.maintenance import MAX_LET_KEYS, MAX_MESSAGE_LENGTH

_READS = frozenset({Scope.MODELS, Scope.METRICS})
_CHANGES = frozenset({Scope.MODELS})


class MaintenanceSerializer(serializers.Serializer):
    is_on = serializers.BooleanField()
    message = serializers.CharField(help_text="empty: the usual words")
    until = serializers.DateTimeField(allow_null=True, help_text="planned end; nothing opens by itself")
    refuses_queued = serializers.BooleanField(help_text="what had no lane when it began was refused as well")
    lets_administrators = serializers.BooleanField()
    let_key_ids = serializers.ListField(child=serializers.IntegerField())
    began_at = serializers.DateTimeField(allow_null=True)
    began_by = serializers.CharField()


class MaintenanceRequest(StrictSerializer):
    message = serializers.CharField(max_length=MAX_MESSAGE_LENGTH, allow_blank=True, default="")
    until = serializers.DateTimeField(allow_null=True, default=None)
    refuses_queued = serializers.BooleanField(default=False)
    lets_administrators = serializers.BooleanField(default=False)
    let_key_ids = serializers.ListField(child=IdField(), max_length=MAX_LET_KEYS, default=list)


class MaintenanceView(ManagementView):
    scopes: ClassVar = {"GET": _READS, "PUT": _CHANGES, "DELETE": _CHANGES}

    @extend_schema(
        operation_id="getMaintenance",
        tags=["maintenance"],
        summary="Whether new requests are refused",
        responses=MaintenanceSerializer,
    )
    def get(self, request: Request) -> Response:
        return _told()

    @extend_schema(
        operation_id="beginMaintenance",
        tags=["maintenance"],
        summary="Refuse new requests from now on; again, to say something else",
        request=MaintenanceRequest,
        responses=MaintenanceSerializer,
    )
    def put(self, request: Request) -> Response:
        body = MaintenanceRequest(data=request.data)
        body.is_valid(raise_exception=True)
        maintenance_begin(plan=MaintenancePlan(**body.validated_data))
        return _told()

    @extend_schema(
        operation_id="endMaintenance",
        tags=["maintenance"],
        summary="Take new requests again; doing it twice is fine",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request) -> Response:
        maintenance_end()
        return Response(status=204)


def _told() -> Response:
    return Response(MaintenanceSerializer(maintenance_get()).data, headers={"Cache-Control": "no-store"})
