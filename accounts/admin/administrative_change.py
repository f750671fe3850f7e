"""The history of changes in Django's admin: to read, by nobody to write."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest

from accounts.admin.bounded_paginator import BoundedPaginator
from accounts.history_page import change_lines
from accounts.models import AdministrativeChange
from accounts.page_admin import PageAdmin


@admin.register(AdministrativeChange)
class AdministrativeChangeAdmin(PageAdmin):
    list_display: ClassVar = ["at", "actor_name", "door", "action", "subject_kind", "subject_label"]
    list_filter: ClassVar = ["door", "action"]
    list_per_page = 100
    paginator = BoundedPaginator
    show_full_result_count = False
    search_fields: ClassVar = ["=actor_name", "=subject_label", "=request_id"]
    search_help_text = "Who, the thing, or a request id, exactly"
    exclude: ClassVar = ["changes"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        names = [field.name for field in self.opts.concrete_fields if field.name not in ("id", "changes")]
        return [*names, "what_changed"]

    @admin.display(description="changes: from, to")
    def what_changed(self, obj: AdministrativeChange) -> str:
        return "\n".join(f"{name}: {before} → {after}" for name, before, after in change_lines(obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
