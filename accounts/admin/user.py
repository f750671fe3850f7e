"""Users in Django's admin: its own page, and what was decided about them."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db import transaction
from django.http import HttpRequest
from unfold.admin import ModelAdmin, StackedInline
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts import services
from accounts.admin.limit_fieldset import LIMIT_FIELDSET
from accounts.models import UserPolicy

SELF_SERVICE_FIELDSET: tuple[str, dict[str, Any]] = (
    "Self-service",
    {
        "fields": ["max_own_keys", "max_own_key_days"],
        "description": "The user signed in, and his keys with the scope keys_own, make keys within this.",
    },
)


class UserPolicyInline(StackedInline):
    """Team, session trust, priority and limits on the page of a user."""

    model = UserPolicy
    can_delete = False
    verbose_name_plural = "policy"
    autocomplete_fields: ClassVar = ["team"]
    fieldsets: ClassVar = [
        (None, {"fields": ["team", "has_session_trust", "priority"]}),
        LIMIT_FIELDSET,
        SELF_SERVICE_FIELDSET,
    ]


admin.site.unregister(get_user_model())
admin.site.unregister(Group)


@admin.register(get_user_model())
class AccountAdmin(UserAdmin, ModelAdmin):
    """A user who is switched off stops at once in this process, in 5 s elsewhere, and so does a
    policy."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    inlines: ClassVar = [UserPolicyInline]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if change:
            transaction.on_commit(partial(services.users_forget))


@admin.register(Group)
class RightsAdmin(GroupAdmin, ModelAdmin):
    """Django's groups of permissions, in the theme of all other pages."""
