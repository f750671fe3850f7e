"""Export and erasure of one user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from channels.db import database_sync_to_async
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import StreamingHttpResponse
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.strict_serializer import StrictSerializer
from accounts.api.user_serializers import MAX_USERNAME_LENGTH
from accounts.api.users import user_found
from accounts.api.view import ManagementView
from accounts.personal_data import user_erase, user_export
from accounts.scopes import Scope

_KEYS = frozenset({Scope.KEYS})


class ErasureRequest(StrictSerializer):
    confirm = serializers.CharField(max_length=MAX_USERNAME_LENGTH, help_text="the user's name once more")


class UserExportView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS}

    @extend_schema(
        operation_id="exportUser",
        tags=["users"],
        summary="All that is kept of a user, as one JSON object",
        description="Needs `usage_all` as well, since records and kept text are in it.",
        responses=inline_serializer(
            "UserExport",
            {"user_id": serializers.IntegerField(), "exported_at": serializers.DateTimeField()},
        ),
    )
    def get(self, request: Request, user_id: int) -> StreamingHttpResponse:
        if not self.caller.has(Scope.USAGE_ALL):
            raise PermissionDenied("This needs the scope `usage_all` as well.")
        user = user_found(user_id)
        return StreamingHttpResponse(
            _streamed(user_export(user=user)),
            content_type="application/json",
            headers={
                "Content-Disposition": f'attachment; filename="user-{user.pk}.json"',
                "Cache-Control": "no-store",
            },
        )


class UserErasureView(ManagementView):
    scopes: ClassVar = {"POST": _KEYS}

    @extend_schema(
        operation_id="eraseUser",
        tags=["users"],
        summary="Take a user out of everything, for ever",
        request=ErasureRequest,
        responses=inline_serializer(
            "Erasure",
            {
                "user_id": serializers.IntegerField(),
                "erased": serializers.DictField(child=serializers.IntegerField()),
            },
        ),
    )
    def post(self, request: Request, user_id: int) -> Response:
        body = ErasureRequest(data=request.data)
        body.is_valid(raise_exception=True)
        user = user_found(user_id)
        if user.pk == self.caller.user_id:
            raise PermissionDenied("Nobody erases himself.")
        if body.validated_data["confirm"] != user.get_username():
            raise ValidationError({"confirm": "This is not the user's name; nothing was erased."})
        erased = user_erase(user=user, may_erase_staff=self.caller.is_superuser)
        return Response({"user_id": user.pk, "erased": erased})


async def _streamed(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each piece is read on a thread, with a connection that it then gives back."""
    take: Any = database_sync_to_async(next, thread_sensitive=False)
    while (piece := await take(pieces, None)) is not None:
        yield piece
