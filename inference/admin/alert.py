"""What operators were told, in Django's admin: to read. Alerts end by themselves when their cause does."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from accounts.admin.bounded_paginator import BoundedPaginator
from accounts.page_admin import PageAdmin
from inference.models import Alert


class OpenFilter(admin.SimpleListFilter):
    """Those that last, or those that are over."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "open"), ("ended", "ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Alert]) -> QuerySet[Alert]:
        match self.value():
            case "open":
                return queryset.filter(closed_at=None)
            case "ended":
                return queryset.exclude(closed_at=None)
            case _:
                return queryset


@admin.register(Alert)
class AlertAdmin(PageAdmin):
    list_display: ClassVar = ["opened_at", "kind", "subject", "message", "closed_at", "notified_at"]
    list_filter: ClassVar = [OpenFilter]
    list_per_page = 100
    ordering: ClassVar = ["-opened_at", "-pk"]
    paginator = BoundedPaginator
    show_full_result_count = False
    search_fields: ClassVar = ["=kind", "=subject"]
    search_help_text = "Kind or subject, exactly"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
