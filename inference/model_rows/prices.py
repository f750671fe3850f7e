"""Changing what tokens cost.

Spending is computed when it is asked for, so a row that is changed or removed changes what was spent since
its day; a new price is a new row from a day on. Every door comes through here or through the same model's own
checks (the admin's form). What is refused is an InvalidRequest or a Conflict that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from inference.domain.errors import Conflict, InvalidRequest
from inference.models import ModelPrice

PRICE_FIELDS = ("model", "starts_on", "input_price", "cached_price", "output_price")


def price_create(*, given: Mapping[str, Any]) -> ModelPrice:
    return _write(ModelPrice(), given)


def price_update(*, price: ModelPrice, given: Mapping[str, Any]) -> ModelPrice:
    """What is not given stays. `price` was read in this transaction, for update."""
    return _write(price, given)


def price_delete(*, price: ModelPrice) -> None:
    price.delete()


def _write(price: ModelPrice, given: Mapping[str, Any]) -> ModelPrice:
    for name in PRICE_FIELDS:
        if name in given:
            setattr(price, name, given[name])
    try:
        price.clean_fields()
    except ValidationError as error:
        name, messages = next(iter(error.message_dict.items()))
        raise InvalidRequest(messages[0], param=name) from None
    try:
        with transaction.atomic():
            price.save()
    except IntegrityError:
        raise Conflict(
            "This model has a price from that day on.", param="starts_on", code="conflict"
        ) from None
    return price
