"""Keys in Django's admin.

A new key is shown exactly once: the answer to the POST that made it holds the key, is not stored
by anybody (no session, no message, no log entry; `Cache-Control: no-store`), and sending the same
form again makes nothing and shows nothing. Digests are not shown at all.

Keys are ended by revoking them. Deleting is left for mistakes: a key that was revoked and never
used. What was used stays, so that what was done with it remains attributable.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html

from accounts import services
from accounts.admin.limit_fieldset import LIMIT_FIELDSET, USE_FIELDSET
from accounts.admin.limit_use_told import use_of_key
from accounts.contracts import KeyState
from accounts.forms import ApiKeyAddForm, ApiKeyChangeForm, ApiKeyRotateForm
from accounts.history_page import HistoryPage
from accounts.keys import MintedKey
from accounts.models import ApiKey
from accounts.page_admin import PageAdmin
from accounts.roles import may_have_text_kept, session_grantable_scopes
from accounts.selectors import api_keys_for_listing
from accounts.sent_forms import SENT_ALREADY, SentForms

_STATE_LABELS = {
    KeyState.VALID: "valid",
    KeyState.EXPIRED: "expired",
    KeyState.REVOKED: "revoked",
    KeyState.USER_INACTIVE: "user inactive",
}
# What an administrator says of a key.
_DECIDED = ["name", "expires_at", "scopes", "priority", "has_session_trust", "keeps_text"]
# What a key's page tells and nobody edits.
_TOLD = ["key", "state", "created_at", "revoked_at", "last_used_at", "rotated_from"]
_SENT_FORMS = SentForms("accounts.sent_key_forms")


def _in_state(state: KeyState, now: datetime) -> Q:
    """The rows in one state, in the order in which `KeyFacts.state_at` judges."""
    revoked = Q(revoked_at__isnull=False)
    expired = Q(expires_at__lte=now)  # not true of NULL
    inactive = Q(user__is_active=False)
    match state:
        case KeyState.REVOKED:
            return revoked
        case KeyState.EXPIRED:
            return ~revoked & expired
        case KeyState.USER_INACTIVE:
            return ~revoked & ~expired & inactive
        case _:
            return ~revoked & ~expired & ~inactive


class StateFilter(admin.SimpleListFilter):
    """Narrows the list to what opens something, or to why it does not."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, label) for state, label in _STATE_LABELS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> QuerySet[ApiKey]:
        if self.value() not in {state.value for state in _STATE_LABELS}:
            return queryset
        return queryset.filter(_in_state(KeyState(self.value()), timezone.now()))


@admin.register(ApiKey)
class ApiKeyAdmin(HistoryPage, PageAdmin):
    list_display: ClassVar = ["name", "key", "user", "state", "created_at", "expires_at", "last_used_at"]
    list_filter: ClassVar = [StateFilter]
    list_select_related: ClassVar = ["user"]
    list_per_page = 100
    search_fields: ClassVar = ["name", "visible_prefix", "user__username"]
    search_help_text = "Name, visible prefix or user"
    autocomplete_fields: ClassVar = ["user"]
    actions: ClassVar = ["revoke_selected", "rotate_selected"]

    # What is shown

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return api_keys_for_listing()

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> list[tuple[Any, Any]]:
        rest = ["submission_id"] if obj is None else _TOLD
        use = [] if obj is None else [USE_FIELDSET]
        return [(None, {"fields": ["user", *_DECIDED, *rest]}), LIMIT_FIELDSET, *use]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        if obj is None:
            return []
        return ["user", *_TOLD, "used_of_limits", *(["expires_at"] if obj.revoked_at is not None else [])]

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, **kwargs: Any) -> Any:
        kwargs["form"] = ApiKeyAddForm if obj is None else ApiKeyChangeForm
        form = super().get_form(request, obj, **kwargs)
        form.actor = request.user
        grantable = session_grantable_scopes(request.user)
        if "scopes" in form.base_fields:
            offered = form.base_fields["scopes"]
            offered.choices = [(name, label) for name, label in offered.choices if name in grantable]
        return form

    @admin.display(description="key", ordering="visible_prefix")
    def key(self, obj: ApiKey) -> str:
        return format_html('<span class="masked">{}</span>', obj.masked)

    @admin.display(description="used now")
    def used_of_limits(self, obj: ApiKey) -> str:
        return use_of_key(obj)

    @admin.display(description="state")
    def state(self, obj: ApiKey) -> str:
        return _STATE_LABELS[obj.state_at(timezone.now())]

    # Who may do what

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        """Of a key that may more than he who asks only its end is his to decide."""
        is_beyond = obj is not None and not obj.granted_scopes() <= session_grantable_scopes(request.user)
        return not is_beyond and super().has_change_permission(request, obj)

    def has_revoke_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        may_revoke: bool = super().has_change_permission(request, obj)
        return may_revoke

    def has_rotate_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        is_beyond = (
            obj is not None and obj.keeps_text and not may_have_text_kept(request.user, owner_id=obj.user_id)
        )
        return not is_beyond and self.has_add_permission(request) and self.has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        is_mistake = obj is None or (obj.revoked_at is not None and obj.last_used_at is None)
        return is_mistake and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)  # it asks once for all rows, not for each
        return actions

    # Making and changing

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if request.method == "POST" and _SENT_FORMS.has(request):
            self.message_user(request, SENT_ALREADY, messages.WARNING)
            return HttpResponseRedirect(reverse("admin:accounts_apikey_changelist"))
        return super().add_view(request, form_url, extra_context)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        context = {
            **(extra_context or {}),
            "can_revoke": self.has_revoke_permission(request),
            "can_rotate": self.has_rotate_permission(request, self.get_object(request, unquote(object_id))),
        }
        return super().change_view(request, object_id, form_url, context)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            services.api_key_update(
                key=ApiKey.objects.get(pk=obj.pk),
                name=obj.name,
                expires_at=obj.expires_at,
                policy=obj.policy(),
                scopes=obj.granted_scopes(),
                limits=obj.limits(),
            )
            return
        row, minted = services.api_key_create(
            user=obj.user,
            name=obj.name,
            expires_at=obj.expires_at,
            policy=obj.policy(),
            scopes=obj.granted_scopes(),
            limits=obj.limits(),
        )
        obj.pk = row.pk
        obj.refresh_from_db()
        # In memory, for as long as this request lasts: `response_add` shows it.
        request.minted_key = minted  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: Any = None) -> HttpResponse:
        _SENT_FORMS.note(request, request.POST["submission_id"])
        minted: MintedKey = request.minted_key  # type: ignore[attr-defined]
        return self._key_shown_once(request, obj, minted)

    def delete_model(self, request: HttpRequest, obj: ApiKey) -> None:
        services.api_key_delete(key=obj)

    # Ending and replacing

    def get_urls(self) -> list[URLPattern]:
        return [
            path(
                "<path:object_id>/revoke/",
                self.admin_site.admin_view(self.revoke_view),
                name="accounts_apikey_revoke",
            ),
            path(
                "<path:object_id>/rotate/",
                self.admin_site.admin_view(self.rotate_view),
                name="accounts_apikey_rotate",
            ),
            *super().get_urls(),
        ]

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Asks, then ends one key."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_revoke_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return self._revoke(request, [row], is_confirmed=request.method == "POST")

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse:
        is_confirmed = "confirmed" in request.POST
        return self._revoke(request, list(queryset), is_confirmed=is_confirmed, action="revoke_selected")

    def _revoke(
        self, request: HttpRequest, rows: list[ApiKey], *, is_confirmed: bool, action: str = ""
    ) -> HttpResponse:
        """`action` has the confirmation sent back to the list's action, where it came from."""
        if not is_confirmed:
            context = {"title": "Revoke API keys", "keys": rows, "action": action}
            return self._page(request, "revoke_confirmation.html", context)
        ended = [row for row in rows if row.revoked_at is None]
        with transaction.atomic():
            for row in ended:
                services.api_key_revoke(key=row)
                self.log_change(request, row, "Revoked.")
        self.message_user(
            request, f"{len(ended)} of {len(rows)} revoked: no process accepts them after 5 seconds."
        )
        return HttpResponseRedirect(reverse("admin:accounts_apikey_changelist"))

    @admin.action(description="Rotate the selected key", permissions=["rotate"])
    def rotate_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        rows = list(queryset[:2])
        if len(rows) != 1:
            self.message_user(request, "Select one key to rotate: its new key is shown once.", messages.ERROR)
            return None
        return HttpResponseRedirect(reverse("admin:accounts_apikey_rotate", args=[quote(rows[0].pk)]))

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Asks how long the old key goes on, then replaces it and shows the new one once.

        Sending the form again shows nothing: a key is replaced only once.
        """
        row = self.get_object(request, unquote(object_id))
        if not self.has_rotate_permission(request, row):
            raise PermissionDenied
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        form = ApiKeyRotateForm(request.POST if request.method == "POST" else None)
        if not form.is_valid():
            context = {"title": "Rotate API key", "original": row, "form": form}
            return self._page(request, "rotate.html", context)
        try:
            with transaction.atomic():
                new, minted = services.api_key_rotate(key=row, grace=form.cleaned_data["grace"])
                self.log_change(request, row, f"Replaced by {new.masked}.")
                self.log_addition(request, new, f"Replaces {row.masked}.")
        except ValidationError as error:
            self.message_user(request, " ".join(error.messages), messages.ERROR)
            return HttpResponseRedirect(reverse("admin:accounts_apikey_change", args=[quote(row.pk)]))
        return self._key_shown_once(request, new, minted)

    def _key_shown_once(self, request: HttpRequest, row: ApiKey, minted: MintedKey) -> HttpResponse:
        context = {"title": "Copy the new API key now", "original": row, "minted": minted}
        response = self._page(request, "key_shown_once.html", context)
        response["Cache-Control"] = "no-store, private"
        return response

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        return TemplateResponse(
            request,
            f"admin/accounts/apikey/{template}",
            {**self.admin_site.each_context(request), "opts": self.opts, **context},
        )
