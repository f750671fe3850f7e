"""/api/changes: the history of what administrators did."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.actors import Door
from accounts.api.listing import IdField, PageQuery, list_of, page_of, query_of
from accounts.api.view import ManagementView
from accounts.history import changes_of
from accounts.models import AdministrativeChange
from accounts.models.administrative_change import ChangeAction
from accounts.scopes import Scope


class ChangeSerializer(serializers.Serializer):
    """`changes` has [from, to] for each field; of a secret only that it was changed."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    door = serializers.ChoiceField(choices=[door.value for door in Door])
    actor_user_id = serializers.IntegerField(allow_null=True)
    actor_name = serializers.CharField()
    actor_key_id = serializers.IntegerField(allow_null=True)
    request_id = serializers.CharField()
    action = serializers.ChoiceField(choices=ChangeAction.values)
    subject_kind = serializers.CharField()
    subject_id = serializers.IntegerField(allow_null=True)
    subject_label = serializers.CharField()
    subject_user_id = serializers.IntegerField(allow_null=True)
    changes = serializers.DictField(child=serializers.ListField())


class ChangeQuery(PageQuery):
    subject_kind = serializers.CharField(max_length=32, required=False)
    subject_id = IdField(required=False)
    subject_user_id = IdField(required=False)
    actor_user_id = IdField(required=False)


def changes_response(request: Request, *, subject_kind: str, subject_id: int | None = None) -> Response:
    """A page of the history of one kind of thing, or of one thing, for the views of those whose they are."""
    rows = changes_of(subject_kind=subject_kind, subject_id=subject_id)
    return page_of(rows, query_of(request, PageQuery)).response(ChangeSerializer)


class ChangesView(ManagementView):
    scopes: ClassVar = {"GET": frozenset({Scope.KEYS})}

    @extend_schema(
        operation_id="listChanges",
        tags=["changes"],
        summary="The history of changes, newest first",
        parameters=[ChangeQuery],
        responses=list_of("ChangeList", ChangeSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, ChangeQuery)
        rows = AdministrativeChange.objects.all()
        for name in ("subject_kind", "subject_id", "subject_user_id", "actor_user_id"):
            if name in query:
                rows = rows.filter(**{name: query[name]})
        return page_of(rows, query).response(ChangeSerializer)
