"""/api/models: which models there are, and what is to become of them."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.view import ManagementView
from accounts.scopes import Scope
from inference.domain.model import canonical_model_id
from inference.domain.model_settings import ModelSettings
from inference.model_rows import services
from inference.model_rows.columns import settings_of
from inference.model_rows.selectors import model_rows_with_reports
from inference.models_api.serializers import (
    ModelChange,
    ModelQuery,
    ModelRequest,
    ModelSerializer,
    ModelStatusSerializer,
    settings_changed,
)

_MODELS = frozenset({Scope.MODELS})


class ModelsView(ManagementView):
    scopes: ClassVar = {"GET": _MODELS, "POST": _MODELS}

    @extend_schema(
        operation_id="listModels",
        tags=["models"],
        summary="Models, newest first",
        parameters=[ModelQuery],
        responses=list_of("ModelList", ModelSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, ModelQuery)
        rows = model_rows_with_reports()
        if "name" in query:
            rows = rows.filter(names__name=canonical_model_id(query["name"]))
        if "is_enabled" in query:
            rows = rows.filter(is_enabled=query["is_enabled"])
        return page_of(rows, query).response(ModelSerializer)

    @extend_schema(
        operation_id="createModel",
        tags=["models"],
        summary="Add a model; it is served within seconds, without a restart",
        request=ModelRequest,
        responses={201: ModelSerializer},
    )
    def post(self, request: Request) -> Response:
        body = ModelRequest(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        blank = ModelSettings(row_id=0, revision=0, id=given["model_id"], source=given["source"])
        with services.model_rows_changing():
            row = services.model_create(
                settings=settings_changed(blank, given), is_enabled=given.get("is_enabled", True)
            )
            if given.get("wants_loaded") is not None:
                row = services.model_wants_loaded(row_id=row.pk, wants_loaded=given["wants_loaded"])
        return tagged(ModelSerializer(row).data, status=201)


class ModelView(ManagementView):
    scopes: ClassVar = {"GET": _MODELS, "PATCH": _MODELS, "DELETE": _MODELS}

    @extend_schema(operation_id="getModel", tags=["models"], summary="One model", responses=ModelSerializer)
    def get(self, request: Request, row_id: str) -> Response:
        return tagged(ModelSerializer(services.model_row_get(row_id=int(row_id))).data)

    @extend_schema(
        operation_id="updateModel",
        tags=["models"],
        summary="Change a model; what needs it is loaded anew",
        request=ModelChange,
        responses=ModelSerializer,
    )
    def patch(self, request: Request, row_id: str) -> Response:
        body = ModelChange(data=request.data)
        body.is_valid(raise_exception=True)
        given = body.validated_data
        with services.model_rows_changing():
            row = services.model_row_get(row_id=int(row_id))
            check_if_match(request, ModelSerializer(row).data)
            row = services.model_update(
                row_id=row.pk,
                settings=settings_changed(settings_of(row), given),
                is_enabled=given.get("is_enabled", row.is_enabled),
            )
            if "wants_loaded" in given:
                row = services.model_wants_loaded(row_id=row.pk, wants_loaded=given["wants_loaded"])
        return tagged(ModelSerializer(row).data)

    @extend_schema(
        operation_id="deleteModel",
        tags=["models"],
        summary="Remove a model; what runs may end, and its file stays",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, row_id: str) -> Response:
        with services.model_rows_changing():
            row = services.model_row_get(row_id=int(row_id))
            check_if_match(request, ModelSerializer(row).data)
            services.model_delete(row_id=row.pk)
        return Response(status=204)


class ModelStatusView(ManagementView):
    scopes: ClassVar = {"GET": _MODELS}

    @extend_schema(
        operation_id="getModelStatus",
        tags=["models"],
        summary="What each process says of a model",
        responses=ModelStatusSerializer,
    )
    def get(self, request: Request, row_id: str) -> Response:
        return _told(int(row_id))


class ModelLoadView(ManagementView):
    scopes: ClassVar = {"POST": _MODELS}

    @extend_schema(
        operation_id="loadModel",
        tags=["models"],
        summary="Load a model, whatever its policy; where that failed, try again. May be repeated",
        request=None,
        responses={202: ModelStatusSerializer},
    )
    def post(self, request: Request, row_id: str) -> Response:
        services.model_wants_loaded(row_id=int(row_id), wants_loaded=True)
        return _told(int(row_id), status=202)


class ModelUnloadView(ManagementView):
    scopes: ClassVar = {"POST": _MODELS}

    @extend_schema(
        operation_id="unloadModel",
        tags=["models"],
        summary="Take no newcomers, let what runs end, and unload a model. May be repeated",
        request=None,
        responses={202: ModelStatusSerializer},
    )
    def post(self, request: Request, row_id: str) -> Response:
        services.model_wants_loaded(row_id=int(row_id), wants_loaded=False)
        return _told(int(row_id), status=202)


def _told(row_id: int, *, status: int = 200) -> Response:
    shown = ModelStatusSerializer(services.model_row_get(row_id=row_id)).data
    return Response(shown, status=status, headers={"Cache-Control": "no-store"})
