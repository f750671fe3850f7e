"""Links from a user's page: an invitation for who has no password yet, else one for a new password."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from accounts.admin.link_shown import link_shown_once
from accounts.link_delivery import can_mail
from accounts.models import PasswordLink
from accounts.models.password_link import UNENDED, LinkPurpose
from accounts.password_link_rights import LinkMaker
from accounts.password_links import invitation_create, password_link_create


class UserLinks:
    """What the admin of users has of links: a mixin before UserAdmin."""

    @admin.display(description="logs in")
    def signs_in(self, obj: Any) -> str:
        if obj.has_usable_password():
            return "with a password" if obj.last_login else "never did"
        if obj.invitation_expires_at is None:
            return "no password"
        return "invited" if obj.invitation_expires_at > timezone.now() else "invitation expired"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        invitations = PasswordLink.objects.filter(
            UNENDED, user=OuterRef("pk"), purpose=LinkPurpose.INVITATION
        )
        rows = super().get_queryset(request)  # type: ignore[misc]
        return rows.annotate(invitation_expires_at=Subquery(invitations.values("expires_at")[:1]))

    def get_urls(self) -> list[URLPattern]:
        return [
            path(
                "<path:object_id>/link/",
                self.admin_site.admin_view(self.link_view),  # type: ignore[attr-defined]
                name="auth_user_link",
            ),
            *super().get_urls(),  # type: ignore[misc]
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        user = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        context = {**(extra_context or {}), "can_link": user is not None and _may_link(request, user)}
        return super().change_view(request, object_id, form_url, context)  # type: ignore[misc, no-any-return]

    @admin.action(description="Invite the selected user, or make a link for a new password")
    def link_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        rows = list(queryset[:2])
        if len(rows) != 1:
            self.message_user(  # type: ignore[attr-defined]
                request, "Select one user: his link is shown once.", messages.ERROR
            )
            return None
        return HttpResponseRedirect(reverse("admin:auth_user_link", args=[quote(rows[0].pk)]))

    def link_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Asks, then makes a link and shows it once. Sending the form again makes another one, and the one
        before is over."""
        user = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        if user is None or not _may_link(request, user):
            raise PermissionDenied
        is_invitation = not user.has_usable_password()
        if request.method == "POST":
            try:
                with transaction.atomic():
                    make = invitation_create if is_invitation else password_link_create
                    link, minted = make(user=user)
                    words = "Invited." if is_invitation else "Link for a new password made."
                    self.log_change(request, user, words)  # type: ignore[attr-defined]
            except ValidationError as error:
                self.message_user(request, " ".join(error.messages), messages.ERROR)  # type: ignore[attr-defined]
                return HttpResponseRedirect(reverse("admin:auth_user_change", args=[quote(user.pk)]))
            return link_shown_once(self, request, link, minted, wants_mail="sends_mail" in request.POST)
        context = {
            **self.admin_site.each_context(request),  # type: ignore[attr-defined]
            "opts": self.opts,  # type: ignore[attr-defined]
            "title": "Invite" if is_invitation else "Link for a new password",
            "original": user,
            "is_invitation": is_invitation,
            "can_mail": can_mail(user),
            "open_link": PasswordLink.objects.filter(
                UNENDED, user=user, expires_at__gt=timezone.now()
            ).first(),
        }
        return TemplateResponse(request, "admin/accounts/passwordlink/make.html", context)


def _may_link(request: HttpRequest, user: Any) -> bool:
    maker = LinkMaker(request.user)
    return maker.may_reset(user) if user.has_usable_password() else maker.may_invite(user)
