"""/api/hook-policies: written, switched, put in order and removed while the service runs."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.changes import ChangeSerializer, changes_response
from accounts.api.listing import Page, PageQuery, list_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.view import ManagementView
from accounts.scopes import Scope
from hooks.api.policy_serializers import (
    ExamplesRequest,
    OrderRequest,
    PolicyChange,
    PolicyQuery,
    PolicyRequest,
    PolicySerializer,
    policy_changed,
    policy_written,
)
from hooks.contracts.policies import PolicyMode
from hooks.contracts.refusals import InvalidField
from hooks.history import POLICY_KIND
from hooks.models import HookPolicy, Webhook
from hooks.selectors import policies_missing
from hooks.services import policies as services
from hooks.services.announcement import hooks_changing
from hooks.services.columns import policy_of

_POLICIES = frozenset({Scope.POLICIES})


class PoliciesView(ManagementView):
    scopes: ClassVar = {"GET": _POLICIES, "POST": _POLICIES}

    @extend_schema(
        operation_id="listHookPolicies",
        tags=["hook policies"],
        summary="Policies, in the order of their application",
        parameters=[PolicyQuery],
        responses=list_of("HookPolicyList", PolicySerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, PolicyQuery)
        rows = HookPolicy.objects.order_by("order", "pk")
        for name in ("name", "mode", "point"):
            if name in query:
                rows = rows.filter(**{name: query[name]})
        page = _page(rows, query)
        return page.response_of([_shown(row, missing) for row, missing in policies_missing(page.rows)])

    @extend_schema(
        operation_id="createHookPolicy",
        tags=["hook policies"],
        summary="Add a policy; it is off unless the body says otherwise",
        request=PolicyRequest,
        responses={201: PolicySerializer},
    )
    def post(self, request: Request) -> Response:
        body = PolicyRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        row = services.policy_create(policy=policy_written(given), description=given.get("description", ""))
        return tagged(policy_shown(row), status=201)


class PolicyView(ManagementView):
    scopes: ClassVar = {"GET": _POLICIES, "PATCH": _POLICIES, "DELETE": _POLICIES}

    @extend_schema(
        operation_id="getHookPolicy",
        tags=["hook policies"],
        summary="One policy",
        responses=PolicySerializer,
    )
    def get(self, request: Request, policy_id: str) -> Response:
        return tagged(policy_shown(services.policy_get(policy_id=int(policy_id))))

    @extend_schema(
        operation_id="updateHookPolicy",
        tags=["hook policies"],
        summary="Change or switch a policy; every process goes by it within seconds",
        request=PolicyChange,
        responses=PolicySerializer,
    )
    def patch(self, request: Request, policy_id: str) -> Response:
        body = PolicyChange(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        with hooks_changing():
            row = services.policy_get(policy_id=int(policy_id))
            check_if_match(request, policy_shown(row))
            if given.keys() == {"mode"}:  # also where the rest of the row cannot be read
                row = services.policy_set_mode(policy_id=row.pk, mode=PolicyMode(given["mode"]))
            else:
                row = services.policy_update(
                    policy=policy_changed(policy_of(row), given),
                    description=given.get("description", row.description),
                )
        return tagged(policy_shown(row))

    @extend_schema(
        operation_id="deleteHookPolicy",
        tags=["hook policies"],
        summary="Remove a policy; its history stays",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, policy_id: str) -> Response:
        with hooks_changing():
            row = services.policy_get(policy_id=int(policy_id))
            check_if_match(request, policy_shown(row))
            services.policy_delete(policy_id=row.pk)
        return Response(status=204)


class PolicyOrderView(ManagementView):
    scopes: ClassVar = {"POST": _POLICIES}

    @extend_schema(
        operation_id="reorderHookPolicies",
        tags=["hook policies"],
        summary="Put all policies in an order",
        request=OrderRequest,
        responses={204: None},
    )
    def post(self, request: Request) -> Response:
        body = OrderRequest(data=request.data)
        body.is_valid(raise_exception=True)
        services.policies_reorder(policy_ids=body.validated_data["ids"])
        return Response(status=204)


class PolicyExamplesView(ManagementView):
    scopes: ClassVar = {"POST": _POLICIES}

    @extend_schema(
        operation_id="addHookPolicyExamples",
        tags=["hook policies"],
        summary="Add the shipped examples that are not there yet, all of them off. May be repeated",
        request=ExamplesRequest,
        responses={201: PolicySerializer(many=True)},
    )
    def post(self, request: Request) -> Response:
        body = ExamplesRequest(data=request.data)
        body.is_valid(raise_exception=True)
        webhook_id = body.validated_data.get("webhook_id")
        if webhook_id is not None and not Webhook.objects.filter(pk=webhook_id).exists():
            raise InvalidField("webhook_id", "there is no such webhook")
        rows = services.policies_add_examples(webhook_id=webhook_id)
        return Response([_shown(row, missing) for row, missing in policies_missing(rows)], status=201)


class PolicyHistoryView(ManagementView):
    """Of all policies, also of those that are gone."""

    scopes: ClassVar = {"GET": _POLICIES}

    @extend_schema(
        operation_id="listHookPolicyChanges",
        tags=["hook policies"],
        summary="Who changed policies, newest first",
        parameters=[PageQuery],
        responses=list_of("HookPolicyChangeList", ChangeSerializer),
    )
    def get(self, request: Request) -> Response:
        return changes_response(request, subject_kind=POLICY_KIND)


class PolicyChangesView(ManagementView):
    """Of one policy, also of one that is gone."""

    scopes: ClassVar = {"GET": _POLICIES}

    @extend_schema(
        operation_id="listChangesOfHookPolicy",
        tags=["hook policies"],
        summary="Who changed a policy, newest first; also one that was removed",
        parameters=[PageQuery],
        responses=list_of("ChangesOfHookPolicy", ChangeSerializer),
    )
    def get(self, request: Request, policy_id: str) -> Response:
        return changes_response(request, subject_kind=POLICY_KIND, subject_id=int(policy_id))


def policy_shown(row: HookPolicy) -> Any:
    ((_, missing),) = policies_missing([row])
    return _shown(row, missing)


def _shown(row: HookPolicy, missing: list[str]) -> Any:
    return PolicySerializer(row, context={"missing": {row.pk: missing}}).data


def _page(rows: QuerySet[HookPolicy], query: dict[str, Any]) -> Page:
    """By key set as all lists are, over the order of application."""
    if "after" in query:
        last = HookPolicy.objects.filter(pk=query["after"]).first()
        if last is None:
            raise InvalidField("after", "there is no such policy")
        rows = rows.filter(Q(order__gt=last.order) | Q(order=last.order, pk__gt=last.pk))
    limit: int = query["limit"]
    found = list(rows[: limit + 1])
    return Page(found[:limit], has_more=len(found) > limit)
