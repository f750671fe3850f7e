"""/api/keys: everybody's keys for who has the scope `keys`, one's own with `keys_own`.

A key is in an answer once, when it is made or replaced. Keys of others look like keys that do not exist.
"""

from __future__ import annotations

from datetime import timedelta
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
from accounts.api.caller import ApiCaller
from accounts.api.key_serializers import (
    ApiKeyChange,
    ApiKeyQuery,
    ApiKeyRequest,
    ApiKeyRotation,
    ApiKeySerializer,
    NewApiKeySerializer,
)
from accounts.api.limits import limits_changed, policy_changed
from accounts.api.listing import list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.view import ManagementView
from accounts.contracts import NO_LIMITS, Policy
from accounts.keys import MintedKey
from accounts.models import ApiKey
from accounts.refusals import KEEPS_OTHERS_TEXT
from accounts.roles import may_have_text_kept
from accounts.scopes import Scope, grantable_scopes, scopes_sorted
from accounts.self_service import own_key_create

OWN_OR_ALL = frozenset({Scope.KEYS_OWN, Scope.KEYS})
_ALL = frozenset({Scope.KEYS})
# What a user says of a key that he makes for himself, and of one that he has.
_OWN_MAKING = frozenset({"user_id", "name", "expires_at", "scopes", "limits"})
_OWN_CHANGING = frozenset({"name"})


def visible_keys(caller: ApiCaller) -> QuerySet[ApiKey]:
    rows = ApiKey.objects.select_related("user__policy__team").defer("digest")
    return rows if caller.has(Scope.KEYS) else rows.filter(user_id=caller.user_id)


class KeysView(ManagementView):
    """What the views of keys share."""

    def check_text_may_be_kept(self, owner_id: int) -> None:
        if not may_have_text_kept(self.request.user, owner_id=owner_id):
            raise PermissionDenied(KEEPS_OTHERS_TEXT)


class ApiKeysView(KeysView):
    scopes: ClassVar = {"GET": OWN_OR_ALL, "POST": OWN_OR_ALL}

    @extend_schema(
        operation_id="listKeys",
        tags=["keys"],
        summary="Keys, newest first",
        parameters=[ApiKeyQuery],
        responses=list_of("ApiKeyList", ApiKeySerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, ApiKeyQuery)
        rows = visible_keys(self.caller)
        if "user_id" in query:
            rows = rows.filter(user_id=query["user_id"])
        if "is_revoked" in query:
            rows = rows.filter(revoked_at__isnull=not query["is_revoked"])
        return page_of(rows, query).response(ApiKeySerializer)

    @extend_schema(
        operation_id="createKey",
        tags=["keys"],
        summary="Make a key; it is shown once",
        request=ApiKeyRequest,
        responses={201: NewApiKeySerializer},
    )
    def post(self, request: Request) -> Response:
        body = ApiKeyRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        if self.caller.has(Scope.KEYS):
            return _shown_once(*self._make(given), status=201)
        return _shown_once(*self._make_own(given), status=201)

    @transaction.atomic
    def _make(self, given: dict[str, Any]) -> tuple[ApiKey, MintedKey]:
        check_grantable(self.caller, given["scopes"])
        user = get_user_model().objects.filter(pk=given.get("user_id", self.caller.user_id)).first()
        if user is None:
            raise ValidationError({"user_id": "There is no such user."})
        if given.get("keeps_text"):
            self.check_text_may_be_kept(user.pk)
        return services.api_key_create(
            user=user,
            name=given["name"],
            expires_at=given["expires_at"],
            policy=policy_changed(Policy(), given),
            scopes=given["scopes"],
            limits=limits_changed(NO_LIMITS, given.get("limits", {})),
        )

    def _make_own(self, given: dict[str, Any]) -> tuple[ApiKey, MintedKey]:
        _check_own_fields(self.request.data, _OWN_MAKING)
        caller = self.caller
        if given.get("user_id", caller.user_id) != caller.user_id:
            raise PermissionDenied("You may make keys for yourself alone.")
        bound = NO_LIMITS if caller.key is None else caller.key.limits()
        return own_key_create(
            user=self.request.user,
            by=caller.key,
            name=given["name"],
            expires_at=given["expires_at"],
            scopes=given["scopes"] if "scopes" in self.request.data else None,
            limits=limits_changed(bound, given.get("limits", {})),
        )


class ApiKeyView(KeysView):
    scopes: ClassVar = {"GET": OWN_OR_ALL, "PATCH": OWN_OR_ALL, "DELETE": OWN_OR_ALL}

    @extend_schema(operation_id="getKey", tags=["keys"], summary="One key", responses=ApiKeySerializer)
    def get(self, request: Request, key_id: int) -> Response:
        return tagged(ApiKeySerializer(_found(self.caller, key_id)).data)

    @extend_schema(
        operation_id="updateKey",
        tags=["keys"],
        summary="Rename a key, or decide about it",
        request=ApiKeyChange,
        responses=ApiKeySerializer,
    )
    @transaction.atomic
    def patch(self, request: Request, key_id: int) -> Response:
        body = ApiKeyChange(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row = _found(self.caller, key_id, for_update=True)
        if self.caller.has(Scope.KEYS):
            check_grantable(self.caller, row.granted_scopes() | given.get("scopes", frozenset()))
        else:
            _check_own_fields(request.data, _OWN_CHANGING)
        check_if_match(request, ApiKeySerializer(row).data)
        if given.get("keeps_text") and not row.keeps_text:
            self.check_text_may_be_kept(row.user_id)
        services.api_key_update(
            key=row,
            name=given.get("name", row.name),
            expires_at=given.get("expires_at", row.expires_at),
            policy=policy_changed(row.policy(), given),
            scopes=given.get("scopes"),
            limits=limits_changed(row.limits(), given.get("limits", {})),
        )
        return tagged(ApiKeySerializer(row).data)

    @extend_schema(
        operation_id="revokeKey",
        tags=["keys"],
        summary="Revoke a key for ever; doing it twice is fine",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, key_id: int) -> Response:
        services.api_key_revoke(key=_found(self.caller, key_id))
        return Response(status=204)


class ApiKeyRotationView(KeysView):
    scopes: ClassVar = {"POST": _ALL}

    @extend_schema(
        operation_id="rotateKey",
        tags=["keys"],
        summary="Replace a key by a new one, which is shown once",
        request=ApiKeyRotation,
        responses={201: NewApiKeySerializer},
    )
    @transaction.atomic
    def post(self, request: Request, key_id: int) -> Response:
        body = ApiKeyRotation(data=request.data)
        body.is_valid(raise_exception=True)
        row = _found(self.caller, key_id)
        check_grantable(self.caller, row.granted_scopes())
        if row.keeps_text:
            self.check_text_may_be_kept(row.user_id)
        grace = timedelta(seconds=body.validated_data["grace_s"])
        return _shown_once(*services.api_key_rotate(key=row, grace=grace), status=201)


def check_grantable(caller: ApiCaller, scopes: frozenset[Scope]) -> None:
    """Nobody makes, changes or replaces a key that may more than he may himself."""
    beyond = scopes - grantable_scopes(caller.scopes)
    if beyond:
        names = ", ".join(f"`{name}`" for name in scopes_sorted(beyond))
        raise PermissionDenied(f"You cannot give or manage scopes that you do not have: {names}.")


def _found(caller: ApiCaller, key_id: int, *, for_update: bool = False) -> ApiKey:
    rows = visible_keys(caller)
    found = (rows.select_for_update(of=("self",)) if for_update else rows).filter(pk=key_id).first()
    if found is None:
        raise Http404
    return found


def _check_own_fields(sent: Any, allowed: frozenset[str]) -> None:
    for name in sent:
        if name not in allowed:
            raise PermissionDenied(f"Only an administrator sets `{name}` of a key.")


def _shown_once(row: ApiKey, minted: MintedKey, *, status: int) -> Response:
    shown = {**ApiKeySerializer(row).data, "key": minted.plaintext}
    return Response(shown, status=status, headers={"Cache-Control": "no-store, private"})
