"""/api/users/{id}/invitation and /password-link, and the list of all of them.

A link is in an answer once, that of the POST that made it. Keys make invitations for key owners whose account
nobody has used yet; everything else needs a session of who manages roles, so that no key sets a password.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.listing import IdField, PageQuery, list_of, page_of, query_of
from accounts.api.strict_serializer import StrictSerializer
from accounts.api.users import user_found
from accounts.api.view import ManagementView
from accounts.invitation_form import MAX_VALID_DAYS
from accounts.link_delivery import can_mail, link_mail, link_url
from accounts.models import PasswordLink
from accounts.models.password_link import LinkPurpose, LinkState
from accounts.password_link_rights import LinkMaker
from accounts.password_links import invitation_create, password_link_create, password_link_revoke
from accounts.password_tokens import MintedToken
from accounts.role_groups import role_set
from accounts.roles import Role
from accounts.scopes import Scope

_KEYS = frozenset({Scope.KEYS})


class PasswordLinkSerializer(serializers.Serializer):
    """A link without anything that opens anything."""

    id = serializers.IntegerField()
    user_id = serializers.IntegerField()
    username = serializers.CharField(source="user.username")
    purpose = serializers.ChoiceField(choices=LinkPurpose.values)
    state = serializers.SerializerMethodField()
    made_by_id = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.ChoiceField(choices=[state.value for state in LinkState]))
    def get_state(self, row: PasswordLink) -> str:
        return row.state_at(timezone.now()).value


class NewPasswordLinkSerializer(PasswordLinkSerializer):
    """The same with the link itself: the only time that it is shown."""

    url = serializers.CharField()
    is_mailed = serializers.BooleanField(help_text="a mail server took it for the user's address")


class PasswordLinkRequest(StrictSerializer):
    valid_hours = serializers.IntegerField(min_value=1, max_value=MAX_VALID_DAYS * 24, required=False)
    sends_mail = serializers.BooleanField(default=False, help_text="where mail is configured")


class InvitationRequest(PasswordLinkRequest):
    role = serializers.ChoiceField(
        choices=[role.value for role in Role], required=False, help_text="left out: as it is"
    )


class PasswordLinkQuery(PageQuery):
    user_id = IdField(required=False)
    purpose = serializers.ChoiceField(choices=LinkPurpose.values, required=False)


class _OfUser(ManagementView):
    """The newest link of one user and one purpose."""

    purpose: ClassVar[LinkPurpose]
    scopes: ClassVar = {"GET": _KEYS, "POST": _KEYS, "DELETE": _KEYS}

    @property
    def maker(self) -> LinkMaker:
        return LinkMaker(self.request.user if self.caller.key is None else None)

    def newest(self, user_id: int) -> PasswordLink:
        rows = _links().filter(user=user_found(user_id), purpose=self.purpose)
        found: PasswordLink | None = rows.order_by("-pk").first()
        if found is None:
            raise Http404
        return found

    def revoke(self, user_id: int) -> Response:
        link = self.newest(user_id)
        if not self.maker.may_revoke(link.user):
            raise PermissionDenied("You may not end links of this user.")
        password_link_revoke(link=link)
        return Response(status=204)

    def shown_once(
        self, request: Request, link: PasswordLink, minted: MintedToken, *, sends_mail: bool
    ) -> Response:
        url = link_url(minted, request)
        is_mailed = sends_mail and can_mail(link.user) and link_mail(link, url)
        shown = {**PasswordLinkSerializer(link).data, "url": url, "is_mailed": is_mailed}
        return Response(shown, status=201, headers={"Cache-Control": "no-store, private"})


class UserInvitationView(_OfUser):
    purpose = LinkPurpose.INVITATION

    @extend_schema(
        operation_id="getInvitation",
        tags=["users"],
        summary="The last invitation of a user",
        responses=PasswordLinkSerializer,
    )
    def get(self, request: Request, user_id: int) -> Response:
        return Response(PasswordLinkSerializer(self.newest(user_id)).data)

    @extend_schema(
        operation_id="createInvitation",
        tags=["users"],
        summary="Invite a user who has no password yet; the link is shown once, and ends one that was open",
        request=InvitationRequest,
        responses={201: NewPasswordLinkSerializer},
    )
    def post(self, request: Request, user_id: int) -> Response:
        given = _read(InvitationRequest, request)
        user = user_found(user_id)
        role = Role(given["role"]) if "role" in given else None
        if not user.is_active:
            raise ValidationError({"user": "This user is switched off: a link would open nothing."})
        if not self.maker.may_invite(user) or (role is not None and role not in self.maker.roles):
            raise PermissionDenied(
                "You may invite key owners whose account nobody has used; everybody else is invited by who "
                "manages roles, signed in."
            )
        with transaction.atomic():
            if role is not None:
                role_set(user=user, role=role)
            link, minted = invitation_create(user=user, valid_for=_valid_for(given))
        return self.shown_once(request, link, minted, sends_mail=given["sends_mail"])

    @extend_schema(
        operation_id="revokeInvitation",
        tags=["users"],
        summary="End the last invitation of a user; doing it twice is fine",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, user_id: int) -> Response:
        return self.revoke(user_id)


class UserPasswordLinkView(_OfUser):
    purpose = LinkPurpose.RESET

    @extend_schema(
        operation_id="getPasswordLink",
        tags=["users"],
        summary="The last link for a new password of a user",
        responses=PasswordLinkSerializer,
    )
    def get(self, request: Request, user_id: int) -> Response:
        return Response(PasswordLinkSerializer(self.newest(user_id)).data)

    @extend_schema(
        operation_id="createPasswordLink",
        tags=["users"],
        summary="Make a link for a new password; it is shown once, and ends one that was open",
        description="By a session of who manages roles alone: no key sets a password.",
        request=PasswordLinkRequest,
        responses={201: NewPasswordLinkSerializer},
    )
    def post(self, request: Request, user_id: int) -> Response:
        given = _read(PasswordLinkRequest, request)
        user = user_found(user_id)
        if not self.maker.may_reset(user):
            raise PermissionDenied(
                "A link for a new password is made by who manages roles, signed in, for active users with no "
                "more rights than his own."
            )
        link, minted = password_link_create(user=user, valid_for=_valid_for(given))
        return self.shown_once(request, link, minted, sends_mail=given["sends_mail"])

    @extend_schema(
        operation_id="revokePasswordLink",
        tags=["users"],
        summary="End the last link for a new password of a user; doing it twice is fine",
        request=None,
        responses={204: None},
    )
    def delete(self, request: Request, user_id: int) -> Response:
        return self.revoke(user_id)


class PasswordLinksView(ManagementView):
    scopes: ClassVar = {"GET": _KEYS}

    @extend_schema(
        operation_id="listPasswordLinks",
        tags=["users"],
        summary="Invitations and password links, newest first",
        parameters=[PasswordLinkQuery],
        responses=list_of("PasswordLinkList", PasswordLinkSerializer),
    )
    def get(self, request: Request) -> Response:
        query = query_of(request, PasswordLinkQuery)
        named = {name: query[name] for name in ("user_id", "purpose") if name in query}
        return page_of(_links().filter(**named), query).response(PasswordLinkSerializer)


def _links() -> QuerySet[PasswordLink]:
    return PasswordLink.objects.select_related("user").defer("digest", "password_mark", "user__password")


def _read(serializer: type[StrictSerializer], request: Request) -> dict[str, Any]:
    body = serializer(data=request.data)
    body.is_valid(raise_exception=True)
    given: dict[str, Any] = body.validated_data
    return given


def _valid_for(given: dict[str, Any]) -> timedelta | None:
    return timedelta(hours=given["valid_hours"]) if "valid_hours" in given else None
