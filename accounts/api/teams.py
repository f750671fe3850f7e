"""/api/teams: users who share limits."""

from __future__ import annotations

from typing import ClassVar

from django.db import transaction
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import services
from accounts.api.key_serializers import NameField
from accounts.api.limits import LimitsSerializer, PriorityField, limits_changed, policy_changed
from accounts.api.listing import PageQuery, list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from accounts.contracts import NO_LIMITS, Policy
from accounts.models import Team
from accounts.names import MAX_NAME_LENGTH
from accounts.scopes import Scope

_KEYS = frozenset({Scope.KEYS})


class TeamSerializer(serializers.Serializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    priority = PriorityField()
    limits = LimitsSerializer()
    created_at = serializers.DateTimeField()


class TeamRequest(StrictSerializer):
    name = NameField()
    priority = PriorityField(required=False)
    limits = LimitsSerializer(required=False)


class TeamChange(StrictSerializer):
    """What is left out stays as it is."""

    name = NameField(required=False)
    priority = PriorityField(required=False)
    limits = LimitsSerializer(required=False)


class TeamQuery(PageQuery):
    name = serializers.CharField(max_length=MAX_NAME_LENGTH, required=False)


class TeamsView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS, "POST": _KEYS}

    @extend_schema(
        operation_id="listTeams",
        tags=["teams"],
        summary="Teams, newest first",
        parameters=[TeamQuery],
        responses=list_of("TeamList", TeamSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, TeamQuery)
        rows = Team.objects.all()
        if "name" in query:
            rows = rows.filter(name=query["name"])
        return page_of(rows, query).response(TeamSerializer)

    @extend_schema(
        operation_id="createTeam",
        tags=["teams"],
        summary="Make a team without members",
        request=TeamRequest,
        responses={201: TeamSerializer},
    )
    def post(self, request: Request) -> Response:
        body = TeamRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        team = services.team_create(
            name=given["name"],
            priority=policy_changed(Policy(), given).priority,
            limits=limits_changed(NO_LIMITS, given.get("limits", {})),
        )
        return tagged(TeamSerializer(team).data, status=201)


class TeamView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS, "PATCH": _KEYS, "DELETE": _KEYS}

    @extend_schema(operation_id="getTeam", tags=["teams"], summary="One team", responses=TeamSerializer)
    def get(self, request: Request, team_id: int) -> Response:
        return tagged(TeamSerializer(_found(team_id)).data)

    @extend_schema(
        operation_id="updateTeam",
        tags=["teams"],
        summary="Rename a team, or decide about it",
        request=TeamChange,
        responses=TeamSerializer,
    )
    @transaction.atomic
    def patch(self, request: Request, team_id: int) -> Response:
        body = TeamChange(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        team = _found(team_id, for_update=True)
        check_if_match(request, TeamSerializer(team).data)
        services.team_update(
            team=team,
            name=given.get("name", team.name),
            priority=policy_changed(Policy(priority=team.known_priority()), given).priority,
            limits=limits_changed(team.limits(), given.get("limits", {})),
        )
        return tagged(TeamSerializer(team).data)

    @extend_schema(
        operation_id="deleteTeam",
        tags=["teams"],
        summary="Delete a team that nobody is in",
        request=None,
        responses={204: None},
    )
    @transaction.atomic
    def delete(self, request: Request, team_id: int) -> Response:
        services.team_delete(team=_found(team_id, for_update=True))
        return Response(status=204)


def _found(team_id: int, *, for_update: bool = False) -> Team:
    rows = Team.objects.select_for_update() if for_update else Team.objects.all()
    found: Team | None = rows.filter(pk=team_id).first()
    if found is None:
        raise Http404
    return found
