"""Teams in Django's admin."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from accounts import services
from accounts.admin.limit_fieldset import LIMIT_FIELDSET
from accounts.models import Team


@admin.register(Team)
class TeamAdmin(ModelAdmin):
    """A team is deleted once nobody is in it any more."""

    list_display: ClassVar = ["name", "num_members", "priority", "created_at"]
    list_per_page = 100
    search_fields: ClassVar = ["name"]
    fieldsets: ClassVar = [(None, {"fields": ["name", "priority"]}), LIMIT_FIELDSET]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        return super().get_queryset(request).annotate(num_members=Count("members"))

    @admin.display(description="members", ordering="num_members")
    def num_members(self, obj: Team) -> int:
        return obj.num_members  # type: ignore[attr-defined, no-any-return]

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        services.team_update(team=obj, name=obj.name, priority=obj.known_priority(), limits=obj.limits())
