"""Invitations and password links in Django's admin: inviting somebody, the list of what is out, and its end.

A link is shown exactly once, in the answer to the POST that made it, as new keys are: nobody stores it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from accounts.admin.bounded_paginator import BoundedPaginator
from accounts.admin.link_shown import link_shown_once
from accounts.history_page import HistoryPage
from accounts.invitation_form import InvitationForm
from accounts.models import PasswordLink
from accounts.models.password_link import LinkState
from accounts.page_admin import PageAdmin
from accounts.password_link_rights import LinkMaker
from accounts.password_links import password_link_revoke, user_invite

TEMPLATES = "admin/accounts/passwordlink"


def _in_state(state: LinkState, now: datetime) -> Q:
    """The rows in one state, in the order in which `PasswordLink.state_at` judges."""
    used, revoked = Q(used_at__isnull=False), Q(revoked_at__isnull=False)
    match state:
        case LinkState.USED:
            return used
        case LinkState.REVOKED:
            return ~used & revoked
        case LinkState.EXPIRED:
            return ~used & ~revoked & Q(expires_at__lte=now)
        case _:
            return ~used & ~revoked & Q(expires_at__gt=now)


class LinkStateFilter(admin.SimpleListFilter):
    """Open ones are what the list is for, so they are shown where nothing else was chosen."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("all", "all"), *((state.value, state.value) for state in LinkState)]

    def choices(self, changelist: Any) -> Any:
        shown = self.value() or LinkState.OPEN.value
        for value, title in self.lookup_choices:
            yield {
                "selected": value == shown,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": title,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[PasswordLink]) -> QuerySet[PasswordLink]:
        asked = self.value() or LinkState.OPEN.value
        if asked not in set(LinkState):
            return queryset
        return queryset.filter(_in_state(LinkState(asked), timezone.now()))


@admin.register(PasswordLink)
class PasswordLinkAdmin(HistoryPage, PageAdmin):
    list_display: ClassVar = ["user", "purpose", "state", "made_by", "created_at", "expires_at", "used_at"]
    list_filter: ClassVar = [LinkStateFilter, "purpose"]
    list_select_related: ClassVar = ["user", "made_by"]
    list_per_page = 100
    paginator = BoundedPaginator
    show_full_result_count = False
    search_fields: ClassVar = ["user__username", "user__email"]
    search_help_text = "User name or e-mail"
    fields: ClassVar = [
        "user",
        "purpose",
        "state",
        "made_by",
        "created_at",
        "expires_at",
        "used_at",
        "revoked_at",
    ]
    readonly_fields: ClassVar = fields
    actions: ClassVar = ["revoke_selected"]

    @admin.display(description="state")
    def state(self, obj: PasswordLink) -> str:
        return obj.state_at(timezone.now()).value

    # Who may do what

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return super().has_add_permission(request) and LinkMaker(request.user).may_invite_anybody

    def has_revoke_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return LinkMaker(request.user).may_invite_anybody

    # Inviting

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """A new user and his invitation."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = InvitationForm(
            request.POST if request.method == "POST" else None, roles=LinkMaker(request.user).roles
        )
        if form.is_valid():
            try:
                with transaction.atomic():
                    link, minted = user_invite(**form.invitation())
                    self.log_addition(request, link, "Invited.")
            except ValidationError as error:
                form.add_errors(error)
            else:
                return link_shown_once(self, request, link, minted, wants_mail=form.wants_mail)
        context = {"title": "Invite somebody", "form": form}
        return self._page(request, "invite.html", context)

    # Ending

    @admin.action(description="Revoke the selected links", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[PasswordLink]) -> HttpResponse:
        rows, maker = list(queryset.select_related("user")), LinkMaker(request.user)
        if not all(maker.may_revoke(row.user) for row in rows):
            raise PermissionDenied
        if "confirmed" not in request.POST:
            return self._page(request, "revoke_confirmation.html", {"title": "Revoke links", "links": rows})
        open_rows = [row for row in rows if row.state_at(timezone.now()) is LinkState.OPEN]
        with transaction.atomic():
            for row in open_rows:
                password_link_revoke(link=row)
                self.log_change(request, row, "Revoked.")
        self.message_user(request, f"{len(open_rows)} of {len(rows)} revoked: they open nothing any more.")
        return HttpResponseRedirect(reverse("admin:accounts_passwordlink_changelist"))

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        return TemplateResponse(
            request,
            f"{TEMPLATES}/{template}",
            {**self.admin_site.each_context(request), "opts": self.opts, **context},
        )
