"""/api/users: who has keys, in which team, within which limits; and /api/me: who is asking."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import services
from accounts.api.limits import limits_changed, policy_changed
from accounts.api.listing import list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.user_serializers import (
    CallerSerializer,
    UserChange,
    UserQuery,
    UserRequest,
    UserSerializer,
)
from accounts.api.view import ManagementView
from accounts.models import Team, UserPolicy
from accounts.password_link_rights import LinkMaker
from accounts.scopes import Scope, scopes_sorted
from accounts.self_service import SelfServiceBounds, self_service_set
from accounts.user_services import user_create, user_update

_KEYS = frozenset({Scope.KEYS})
_POLICY_FIELDS = frozenset({"priority", "has_session_trust", "limits"})
_SELF_SERVICE_FIELDS = frozenset({"max_own_keys", "max_own_key_days"})


def _users() -> QuerySet[Any]:
    return get_user_model().objects.select_related("policy__team").defer("password")


def user_found(user_id: int) -> Any:
    found = _users().filter(pk=user_id).first()
    if found is None:
        raise Http404
    return found


class CallerView(ManagementView):
    scopes: ClassVar = {"GET": frozenset(Scope)}

    @extend_schema(
        operation_id="getCaller", tags=["users"], summary="Who is asking", responses=CallerSerializer
    )
    def get(self, request: Request) -> Response:
        caller = self.caller
        shown = {
            "user_id": caller.user_id,
            "username": caller.username,
            "key_id": caller.key_id,
            "scopes": scopes_sorted(caller.scopes),
        }
        return Response(shown)


class UsersView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS, "POST": _KEYS}

    @extend_schema(
        operation_id="listUsers",
        tags=["users"],
        summary="Users, newest first",
        parameters=[UserQuery],
        responses=list_of("UserList", UserSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, UserQuery)
        rows = _users()
        if "username" in query:
            rows = rows.filter(username=query["username"])
        if "team_id" in query:
            rows = rows.filter(policy__team_id=query["team_id"])
        if "is_active" in query:
            rows = rows.filter(is_active=query["is_active"])
        return page_of(rows, query).response(UserSerializer)

    @extend_schema(
        operation_id="createUser",
        tags=["users"],
        summary="Make a user without a password, who signs in with keys",
        request=UserRequest,
        responses={201: UserSerializer},
    )
    @transaction.atomic
    def post(self, request: Request) -> Response:
        body = UserRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        user = user_create(username=given["username"], email=given.get("email", ""))
        _decide(user, given)
        return tagged(UserSerializer(user_found(user.pk)).data, status=201)


class UserView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS, "PATCH": _KEYS}

    @extend_schema(operation_id="getUser", tags=["users"], summary="One user", responses=UserSerializer)
    def get(self, request: Request, user_id: int) -> Response:
        return tagged(UserSerializer(user_found(user_id)).data)

    @extend_schema(
        operation_id="updateUser",
        tags=["users"],
        summary="Decide about a user, or switch him off",
        request=UserChange,
        responses=UserSerializer,
    )
    @transaction.atomic
    def patch(self, request: Request, user_id: int) -> Response:
        body = UserChange(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        # The user's row stands for all that belongs to it.
        if not get_user_model().objects.select_for_update(of=("self",)).filter(pk=user_id).exists():
            raise Http404
        user = user_found(user_id)
        check_if_match(request, UserSerializer(user).data)
        email = given.get("email")
        maker = LinkMaker(request.user if self.caller.key is None else None)
        if email not in (None, user.email) and not maker.may_set_address(user):
            raise PermissionDenied(
                "The provider's people are found by their addresses here: this user's is changed by who "
                "manages roles, signed in."
            )
        user_update(
            user=user,
            email=email,
            is_active=given.get("is_active"),
            may_change_staff=self.caller.is_superuser,
        )
        _decide(user, given)
        return tagged(UserSerializer(user_found(user_id)).data)


def _decide(user: Any, given: dict[str, Any]) -> None:
    """What stands in the user's policy, where the body speaks of it."""
    if "team_id" in given:
        services.user_team_set(user=user, team=_team(given["team_id"]))
    row = UserPolicy.objects.filter(user=user).first() or UserPolicy(user=user)
    if _POLICY_FIELDS & given.keys():
        services.user_policy_set(
            user=user,
            policy=policy_changed(row.policy(), given),
            limits=limits_changed(row.limits(), given.get("limits", {})),
        )
    if _SELF_SERVICE_FIELDS & given.keys():
        bounds = SelfServiceBounds(
            given.get("max_own_keys", row.max_own_keys),
            given.get("max_own_key_days", row.max_own_key_days),
        )
        self_service_set(user=user, bounds=bounds)


def _team(team_id: int | None) -> Team | None:
    if team_id is None:
        return None
    found = Team.objects.filter(pk=team_id).first()
    if found is None:
        raise ValidationError({"team_id": "There is no such team."})
    return found
