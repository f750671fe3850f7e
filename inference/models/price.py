"""What tokens cost."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MinValueValidator
from django.db import models

from inference.models.model_row import MAX_MODEL_ID_LENGTH

_PRICE = {"max_digits": 14, "decimal_places": 6, "validators": [MinValueValidator(0)]}


class ModelPrice(models.Model):
    """Prices of a model's tokens by the million, from the beginning of a day (of UTC) until the next row's.

    A new price is a new row, so that what was spent before stays what it was. It names the model as records
    do, and not its row: what a model that is gone has cost is still asked for. The currency is whatever the
    operator counts in.
    """

    model = models.CharField("model", max_length=MAX_MODEL_ID_LENGTH, help_text="Its id, as in records.")
    starts_on = models.DateField("from", help_text="The first day (UTC) on which these prices hold.")
    input_price = models.DecimalField("a million input tokens", **_PRICE)
    cached_price = models.DecimalField(
        "a million cached input tokens", **_PRICE, null=True, blank=True, help_text="Empty: as other input."
    )
    output_price = models.DecimalField("a million output tokens", **_PRICE)

    class Meta:
        verbose_name = "price"
        ordering: ClassVar = ["model", "-starts_on"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "starts_on"], name="price_once_a_day"),
            models.CheckConstraint(
                condition=models.Q(input_price__gte=0, output_price__gte=0)
                & (models.Q(cached_price__isnull=True) | models.Q(cached_price__gte=0)),
                name="price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} from {self.starts_on}"
