"""/api/{keys,users,teams}/{id}/limits: what holds, and what is used of it by now."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import ClassVar

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.keys import OWN_OR_ALL, visible_keys
from accounts.api.limits import LimitsSerializer
from accounts.api.users import user_found
from accounts.api.view import ManagementView
from accounts.contracts import NO_LIMITS, Limits
from accounts.limit_use import limit_use_get
from accounts.limits.contracts import LimitScope
from accounts.models import Team
from accounts.scopes import Scope

_KEYS = frozenset({Scope.KEYS})


class UsedSerializer(serializers.Serializer):
    requests_per_minute = serializers.IntegerField()
    tokens_per_minute = serializers.IntegerField(help_text="open requests with what they may use")
    parallel_requests = serializers.IntegerField()
    tokens_per_day = serializers.IntegerField()
    tokens_per_week = serializers.IntegerField()
    tokens_per_month = serializers.IntegerField()


class LimitUseSerializer(serializers.Serializer):
    limits = LimitsSerializer()
    used = UsedSerializer(
        allow_null=True, help_text="null: nothing is counted, since nothing was ever limited"
    )


def _shown(scope: LimitScope, owner_id: int, limits: Limits) -> Response:
    used = limit_use_get(scope=scope, owner_id=owner_id, now=time.time())
    shown = {"limits": limits, "used": None if used is None else asdict(used)}
    return Response(LimitUseSerializer(shown).data, headers={"Cache-Control": "no-store"})


class ApiKeyLimitsView(ManagementView):
    scopes: ClassVar = {"GET": OWN_OR_ALL}

    @extend_schema(
        operation_id="getKeyLimits",
        tags=["keys"],
        summary="A key's limits and their use",
        responses=LimitUseSerializer,
    )
    def get(self, request: Request, key_id: int) -> Response:
        row = visible_keys(self.caller).filter(pk=key_id).first()
        if row is None:
            raise Http404
        return _shown(LimitScope.KEY, row.pk, row.limits())


class UserLimitsView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS}

    @extend_schema(
        operation_id="getUserLimits",
        tags=["users"],
        summary="A user's limits and their use, of all keys together",
        responses=LimitUseSerializer,
    )
    def get(self, request: Request, user_id: int) -> Response:
        user = user_found(user_id)
        policy = getattr(user, "policy", None)
        return _shown(LimitScope.USER, user.pk, NO_LIMITS if policy is None else policy.limits())


class TeamLimitsView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS}

    @extend_schema(
        operation_id="getTeamLimits",
        tags=["teams"],
        summary="A team's limits and their use, of all users together",
        responses=LimitUseSerializer,
    )
    def get(self, request: Request, team_id: int) -> Response:
        team = Team.objects.filter(pk=team_id).first()
        if team is None:
            raise Http404
        return _shown(LimitScope.TEAM, team.pk, team.limits())
