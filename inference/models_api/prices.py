"""/api/prices: what a million tokens of a model cost, from a day on."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.changes import ChangeSerializer, changes_response
from accounts.api.listing import PageQuery, list_of, page_of, query_of
from accounts.api.preconditions import check_if_match, tagged
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.view import ManagementView
from accounts.names import validate_name
from accounts.scopes import Scope
from inference.model_rows.prices import price_create, price_delete, price_update
from inference.models import ModelPrice
from inference.models.model_row import MAX_MODEL_ID_LENGTH

_MODELS = frozenset({Scope.MODELS})
KIND = "model_price"


class _Money(serializers.DecimalField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_digits=14, decimal_places=6, min_value=0, **kwargs)


def _check_model(name: str) -> None:
    validate_name(name, max_length=MAX_MODEL_ID_LENGTH)


class ModelPriceSerializer(serializers.Serializer):
    """Prices of a million tokens, as decimal strings, in the operator's currency."""

    id = serializers.IntegerField()
    model = serializers.CharField()
    starts_on = serializers.DateField()
    input_price = _Money()
    cached_price = _Money(allow_null=True, help_text="null: as other input")
    output_price = _Money()


class PriceRequest(StrictSerializer):
    model = serializers.CharField(
        max_length=MAX_MODEL_ID_LENGTH, validators=[_check_model], help_text="its id, as in records"
    )
    starts_on = serializers.DateField(help_text="the first day (UTC) on which it holds")
    input_price = _Money()
    cached_price = _Money(allow_null=True, required=False)
    output_price = _Money()


class PriceChange(PriceRequest):
    """What is left out stays as it is."""


class PriceQuery(PageQuery):
    model = serializers.CharField(max_length=MAX_MODEL_ID_LENGTH, required=False)


class _PriceView(ManagementView):
    """Signed in by session, prices need Django's permissions for them beside those for models."""

    def check_may(self, verb: str) -> None:
        if self.caller.key is None and not self.request.user.has_perm(f"inference.{verb}_modelprice"):
            raise PermissionDenied("You may not do that with prices.")


class PricesView(_PriceView):
    scopes: ClassVar = {"GET": _MODELS, "POST": _MODELS}

    @extend_schema(
        operation_id="listPrices",
        tags=["models"],
        summary="Prices, newest first",
        parameters=[PriceQuery],
        responses=list_of("PriceList", ModelPriceSerializer),
    )
    def get(self, request: Request) -> Response:
        self.check_may("view")
        query = query_of(request, PriceQuery)
        rows = ModelPrice.objects.all()
        if "model" in query:
            rows = rows.filter(model=query["model"])
        return page_of(rows, query).response(ModelPriceSerializer)

    @extend_schema(
        operation_id="createPrice",
        tags=["models"],
        summary="Set a price from a day on; days before keep theirs",
        request=PriceRequest,
        responses={201: ModelPriceSerializer},
    )
    def post(self, request: Request) -> Response:
        self.check_may("add")
        body = PriceRequest(data=request.data)
        body.is_valid(raise_exception=True)
        price = price_create(given=body.validated_data)
        return tagged(ModelPriceSerializer(price).data, status=201)


class PriceView(_PriceView):
    scopes: ClassVar = {"GET": _MODELS, "PATCH": _MODELS, "DELETE": _MODELS}

    @extend_schema(
        operation_id="getPrice", tags=["models"], summary="One price", responses=ModelPriceSerializer
    )
    def get(self, request: Request, price_id: str) -> Response:
        self.check_may("view")
        return tagged(ModelPriceSerializer(_found(price_id)).data)

    @extend_schema(
        operation_id="updatePrice",
        tags=["models"],
        summary="Correct a price; what was spent since its day changes with it",
        request=PriceChange,
        responses=ModelPriceSerializer,
    )
    @transaction.atomic
    def patch(self, request: Request, price_id: str) -> Response:
        self.check_may("change")
        body = PriceChange(data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        price = _found(price_id, for_update=True)
        check_if_match(request, ModelPriceSerializer(price).data)
        price = price_update(price=price, given=body.validated_data)
        return tagged(ModelPriceSerializer(price).data)

    @extend_schema(
        operation_id="deletePrice",
        tags=["models"],
        summary="Remove a price; the one before holds on",
        request=None,
        responses={204: None},
    )
    @transaction.atomic
    def delete(self, request: Request, price_id: str) -> Response:
        self.check_may("delete")
        price = _found(price_id, for_update=True)
        check_if_match(request, ModelPriceSerializer(price).data)
        price_delete(price=price)
        return Response(status=204)


class PriceHistoryView(_PriceView):
    scopes: ClassVar = {"GET": _MODELS}

    @extend_schema(
        operation_id="listPriceChanges",
        tags=["models"],
        summary="The history of all prices, newest first",
        parameters=[PageQuery],
        responses=list_of("PriceChangeList", ChangeSerializer),
    )
    def get(self, request: Request) -> Response:
        self.check_may("view")
        return changes_response(request, subject_kind=KIND)


def _found(price_id: str, *, for_update: bool = False) -> ModelPrice:
    rows = ModelPrice.objects.select_for_update() if for_update else ModelPrice.objects.all()
    found: ModelPrice | None = rows.filter(pk=int(price_id)).first()
    if found is None:
        raise Http404
    return found
