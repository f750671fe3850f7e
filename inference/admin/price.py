"""Prices of models in Django's admin. A new price is a new row, from a day on."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from accounts.history_page import HistoryPage
from accounts.page_admin import PageAdmin
from inference.models import ModelPrice


@admin.register(ModelPrice)
class ModelPriceAdmin(HistoryPage, PageAdmin):
    """Spending is computed when it is asked for: who changes a row changes what was spent since its day."""

    list_display: ClassVar = ["model", "starts_on", "input_price", "cached_price", "output_price"]
    list_per_page = 100
    search_fields: ClassVar = ["model"]
