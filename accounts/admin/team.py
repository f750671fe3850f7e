"""Teams in Django's admin."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from accounts import services
from accounts.admin.limit_fieldset import LIMIT_FIELDSET, USE_FIELDSET
from accounts.admin.limit_use_told import use_of_team
from accounts.history_page import HistoryPage
from accounts.models import Team
from accounts.page_admin import PageAdmin


@admin.register(Team)
class TeamAdmin(HistoryPage, PageAdmin):
    """A team is deleted once nobody is in it any more."""

    list_display: ClassVar = ["name", "num_members", "priority", "created_at"]
    list_per_page = 100
    search_fields: ClassVar = ["name"]
    readonly_fields: ClassVar = ["used_of_limits"]
    fieldsets: ClassVar = [(None, {"fields": ["name", "priority"]}), LIMIT_FIELDSET]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        return fieldsets if obj is None else [*fieldsets, USE_FIELDSET]

    @admin.display(description="used now")
    def used_of_limits(self, obj: Team) -> str:
        return use_of_team(obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        return super().get_queryset(request).annotate(num_members=Count("members"))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Says what to do where somebody is still in it, before it asks."""
        row = self.get_object(request, unquote(object_id))
        if row is not None and self.has_delete_permission(request, row) and row.members.exists():
            told = f"Users are in the team {row.name}. Put them elsewhere first, then delete it."
            self.message_user(request, told, messages.ERROR)
            return HttpResponseRedirect(reverse("admin:accounts_team_change", args=[quote(row.pk)]))
        return super().delete_view(request, object_id, extra_context)

    @admin.display(description="members", ordering="num_members")
    def num_members(self, obj: Team) -> int:
        return obj.num_members  # type: ignore[attr-defined, no-any-return]

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        services.team_update(team=obj, name=obj.name, priority=obj.known_priority(), limits=obj.limits())
