"""Users in Django's admin: its own page, and what was decided about them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from unfold.admin import StackedInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts import services
from accounts.admin.limit_fieldset import LIMIT_FIELDSET, USE_FIELDSET
from accounts.admin.limit_use_told import use_of_user
from accounts.admin.user_links import UserLinks
from accounts.history import changes_about_user
from accounts.history_page import HistoryPage
from accounts.models import UserPolicy
from accounts.page_admin import PageAdmin
from accounts.password_link_rights import LinkMaker
from accounts.roles import Role, may_change_account, may_manage_roles

SELF_SERVICE_FIELDSET: tuple[str, dict[str, Any]] = (
    "Self-service",
    {
        "fields": ["max_own_keys", "max_own_key_days"],
        "description": "The user, logged in, and his keys with the scope keys_own, make keys within this.",
    },
)

_OF_ROLES = ("is_staff", "is_superuser", "groups", "user_permissions")


class UserPolicyInline(StackedInline):
    """Team, session trust, priority and limits on the page of a user."""

    model = UserPolicy
    can_delete = False
    verbose_name_plural = "policy"
    autocomplete_fields: ClassVar = ["team"]
    fieldsets: ClassVar = [
        (None, {"fields": ["team", "has_session_trust", "priority"]}),
        LIMIT_FIELDSET,
        USE_FIELDSET,
        SELF_SERVICE_FIELDSET,
    ]
    readonly_fields: ClassVar = ["used_of_limits"]

    @admin.display(description="used now")
    def used_of_limits(self, obj: UserPolicy) -> str:
        return use_of_user(obj) if obj.user_id else "Nothing is limited."


admin.site.unregister(get_user_model())
admin.site.unregister(Group)


@admin.register(get_user_model())
class AccountAdmin(UserLinks, HistoryPage, UserAdmin, PageAdmin):
    """A user who is switched off stops at once in this process, in 5 s elsewhere, and so does a
    policy.

    Who may change users but does not manage roles (an operator) leaves alone what would make somebody more:
    staff, names, passwords, roles and rights.
    """

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    inlines: ClassVar = [UserPolicyInline]
    list_display: ClassVar = ["username", "email", "signs_in", "is_staff", "is_active", "last_login"]
    actions: ClassVar = ["link_selected"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_open = obj is None or may_change_account(request.user, obj)
        return is_open and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_open = obj is None or may_change_account(request.user, obj)
        return is_open and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)  # it asks once for all rows, not for each
        return actions

    def changes(self, row: Any) -> Any:
        return changes_about_user(user_id=row.pk)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        told = [*super().get_readonly_fields(request, obj)]
        if obj is not None and not may_manage_roles(request.user):
            told += ["username", *_OF_ROLES]
        elif not request.user.is_superuser:
            told.append("is_superuser")
        if obj is not None and not LinkMaker(request.user).may_set_address(obj):
            told.append("email")
        return told

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or may_manage_roles(request.user):
            return fieldsets
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name != "password"]})
            for title, rest in fieldsets
        ]

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        if not may_manage_roles(request.user):
            raise PermissionDenied
        return super().user_change_password(request, id, form_url)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change:
            transaction.on_commit(partial(services.users_forget))


@admin.register(Group)
class RightsAdmin(HistoryPage, GroupAdmin, PageAdmin):
    """Django's groups of permissions, in our theme. Those of roles are made by the code."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not _is_role(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return not _is_role(obj) and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)  # it asks once for all rows, not for each
        return actions


def _is_role(group: Any) -> bool:
    return group is not None and group.name in {role.value for role in Role}
