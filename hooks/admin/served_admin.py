"""Rows of hooks in the admin: written by the services alone, which may refuse at any time."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from accounts.history_page import HistoryPage
from accounts.page_admin import PageAdmin
from hooks.admin.form_fields import without_hidden
from hooks.contracts.refusals import HookRefusal


class ServedAdmin(HistoryPage, PageAdmin):
    """Its forms have looked already for what services refuse; what they refuse all the same, because
    somebody else was faster, is said on the page."""

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        may_write = (
            self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        )
        return without_hidden(super().get_fieldsets(request, obj), may_write)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except HookRefusal as refusal:
            return self._told(request, refusal)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().delete_view(request, *args, **kwargs)
        except HookRefusal as refusal:
            return self._told(request, refusal)

    def _told(self, request: HttpRequest, refusal: HookRefusal) -> HttpResponse:
        self.message_user(request, refusal.message, messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())
