"""/api/webhooks: whom policies may call."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.changes import ChangeSerializer, changes_response
from accounts.api.listing import PageQuery, list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.view import ManagementView
from accounts.scopes import Scope
from hooks.api.webhook_serializers import (
    WebhookChange,
    WebhookQuery,
    WebhookRequest,
    WebhookSerializer,
    settings_changed,
)
from hooks.contracts.webhook_settings import WebhookSettings
from hooks.history import WEBHOOK_KIND
from hooks.models import Webhook
from hooks.services import webhooks as services
from hooks.services.announcement import hooks_changing
from hooks.services.webhook_columns import settings_of

_POLICIES = frozenset({Scope.POLICIES})


class WebhooksView(ManagementView):
    scopes: ClassVar = {"GET": _POLICIES, "POST": _POLICIES}

    @extend_schema(
        operation_id="listWebhooks",
        tags=["webhooks"],
        summary="Webhooks, newest first",
        parameters=[WebhookQuery],
        responses=list_of("WebhookList", WebhookSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, WebhookQuery)
        rows = Webhook.objects.all()
        if "name" in query:
            rows = rows.filter(name=query["name"])
        return page_of(rows, query).response(WebhookSerializer)

    @extend_schema(
        operation_id="createWebhook",
        tags=["webhooks"],
        summary="Add a webhook, which nobody calls until a policy does",
        request=WebhookRequest,
        responses={201: WebhookSerializer},
    )
    def post(self, request: Request) -> Response:
        body = WebhookRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        blank = WebhookSettings(webhook_id=0, name=given["name"], url=given["url"], secret=given["secret"])
        row = services.webhook_create(
            settings=settings_changed(blank, given), description=given.get("description", "")
        )
        return tagged(_shown(row), status=201)


class WebhookView(ManagementView):
    scopes: ClassVar = {"GET": _POLICIES, "PATCH": _POLICIES, "DELETE": _POLICIES}

    @extend_schema(
        operation_id="getWebhook", tags=["webhooks"], summary="One webhook", responses=WebhookSerializer
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        return tagged(_shown(services.webhook_get(webhook_id=int(webhook_id))))

    @extend_schema(
        operation_id="updateWebhook",
        tags=["webhooks"],
        summary="Change a webhook, or give it a new secret",
        request=WebhookChange,
        responses=WebhookSerializer,
    )
    def patch(self, request: Request, webhook_id: str) -> Response:
        body = WebhookChange(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        with hooks_changing():
            row = services.webhook_get(webhook_id=int(webhook_id))
            check_if_match(request, _shown(row))
            row = services.webhook_update(
                settings=settings_changed(settings_of(row), given),
                description=given.get("description", row.description),
                secret=given.get("secret"),
            )
        return tagged(_shown(row))

    @extend_schema(
        operation_id="deleteWebhook",
        tags=["webhooks"],
        summary="Remove a webhook that no policy calls",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, webhook_id: str) -> Response:
        with hooks_changing():
            row = services.webhook_get(webhook_id=int(webhook_id))
            check_if_match(request, _shown(row))
            services.webhook_delete(webhook_id=row.pk)
        return Response(status=204)


class WebhookHistoryView(ManagementView):
    """Of all webhooks, also of those that are gone."""

    scopes: ClassVar = {"GET": _POLICIES}

    @extend_schema(
        operation_id="listWebhookChanges",
        tags=["webhooks"],
        summary="Who changed webhooks, newest first",
        parameters=[PageQuery],
        responses=list_of("WebhookChangeList", ChangeSerializer),
    )
    def get(self, request: Request) -> Response:
        return changes_response(request, subject_kind=WEBHOOK_KIND)


class WebhookChangesView(ManagementView):
    """Of one webhook, also of one that is gone."""

    scopes: ClassVar = {"GET": _POLICIES}

    @extend_schema(
        operation_id="listChangesOfWebhook",
        tags=["webhooks"],
        summary="Who changed a webhook, newest first; also one that was removed",
        parameters=[PageQuery],
        responses=list_of("ChangesOfWebhook", ChangeSerializer),
    )
    def get(self, request: Request, webhook_id: str) -> Response:
        return changes_response(request, subject_kind=WEBHOOK_KIND, subject_id=int(webhook_id))


def _shown(row: Webhook) -> Any:
    return WebhookSerializer(row).data
