"""Policies in Django's admin: put in order, written, switched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.safestring import SafeString

from hooks.admin.form_fields import people_shown
from hooks.admin.policy_form import HookPolicyForm
from hooks.admin.replay_pages import replay_form_page, replay_page, replays_page
from hooks.admin.served_admin import ServedAdmin
from hooks.admin.trial_page import trial_page
from hooks.admin.written_help import actions_help, variables_help, window_help
from hooks.contracts.policies import PolicyMode
from hooks.contracts.refusals import HookRefusal
from hooks.models import HookPolicy
from hooks.selectors import policies_missing
from hooks.services import policies as services
from hooks.services.columns import policy_of, policy_or_fault
from hooks.services.scope_directory import scope_directory

ALL = "all"


@admin.register(HookPolicy)
class HookPolicyAdmin(ServedAdmin):
    form = HookPolicyForm
    # Outside the form, behind its own buttons: the first button is what Enter presses.
    change_form_outer_after_template = "admin/hooks/policy_links.html"
    list_display: ClassVar = ["name", "order", "point", "mode", "is_required", "trouble", "updated_at"]
    list_editable: ClassVar = ["order"]
    list_filter: ClassVar = ["mode", "point", "is_required"]
    list_per_page = 100
    search_fields: ClassVar = ["name", "description", "condition"]
    ordering: ClassVar = ["order", "pk"]
    readonly_fields: ClassVar = [
        "trouble",
        "variables",
        "action_types",
        "window_fields",
        "revision",
        "created_at",
        "updated_at",
    ]
    actions: ClassVar = ["enforce_selected", "observe_selected", "switch_off_selected"]
    fieldsets: ClassVar = [
        (
            None,
            {"fields": ["name", "description", "mode", "order", "is_required", "trouble", "seen_revision"]},
        ),
        ("What", {"fields": ["point", "condition", "variables", "actions", "action_types"]}),
        ("Whose requests", {"fields": ["teams", "users", "keys", "models"]}),
        (
            "How",
            {"fields": ["deadline_s", "on_failure", "held_chars", "window", "window_fields"]},
        ),
        ("Row", {"fields": ["revision", "created_at", "updated_at"]}),
    ]

    # What is shown

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Its rows have `missing`, looked up for all of them at once."""
        changelist = super().get_changelist_instance(request)
        for row, missing in policies_missing(list(changelist.result_list)):
            row.missing = missing
        return changelist

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if db_field.name == "order":  # in the list there is no label beside it
            field.widget.attrs["aria-label"] = "Order"
        return field

    @admin.display(description="trouble")
    def trouble(self, obj: HookPolicy) -> str:
        """A row that cannot be read, or whom it names in vain."""
        if obj.pk is None:
            return "-"
        missing = getattr(obj, "missing", None)
        if missing is None:
            ((_, missing),) = policies_missing([obj])
        gone = f"not there: {', '.join(missing)}" if missing else ""
        return policy_or_fault(obj).fault or gone or "-"

    @admin.display(description="what a condition may speak of")
    def variables(self, obj: HookPolicy) -> SafeString:
        return variables_help()

    @admin.display(description="types of actions")
    def action_types(self, obj: HookPolicy) -> SafeString:
        return actions_help()

    @admin.display(description="fields of a window rule")
    def window_fields(self, obj: HookPolicy) -> SafeString:
        return window_help()

    # The form has fields of these names; who may only look is shown them so.

    @admin.display(description="teams")
    def teams(self, obj: HookPolicy) -> str:
        return people_shown(obj.team_ids, scope_directory().teams(set(obj.team_ids))) or ALL

    @admin.display(description="users")
    def users(self, obj: HookPolicy) -> str:
        return people_shown(obj.user_ids, scope_directory().users(set(obj.user_ids))) or ALL

    @admin.display(description="keys")
    def keys(self, obj: HookPolicy) -> str:
        return people_shown(obj.key_ids, scope_directory().keys(set(obj.key_ids))) or ALL

    @admin.display(description="models")
    def models(self, obj: HookPolicy) -> str:
        return "\n".join(obj.model_ids) or ALL

    # Trying

    def get_urls(self) -> Any:
        own = [
            path(pattern, self.admin_site.admin_view(view), name=f"hooks_hookpolicy_{name}")
            for pattern, view, name in (
                ("try/", self.try_view, "try"),
                ("replay/", self.replay_view, "replay"),
                ("replays/", self.replays_view, "replays"),
                ("replays/<int:replay_id>/", self.replay_report_view, "replay_report"),
            )
        ]
        return [*own, *super().get_urls()]

    def try_view(self, request: HttpRequest) -> HttpResponse:
        return trial_page(request, self)

    def replay_view(self, request: HttpRequest) -> HttpResponse:
        return replay_form_page(request, self)

    def replays_view(self, request: HttpRequest) -> HttpResponse:
        return replays_page(request, self)

    def replay_report_view(self, request: HttpRequest, replay_id: int) -> HttpResponse:
        return replay_page(request, self, replay_id)

    # Adding, changing and removing

    def save_model(self, request: HttpRequest, obj: HookPolicy, form: Any, change: bool) -> None:
        if not isinstance(form, HookPolicyForm):  # the list, where only the order is written
            self._put(request, obj)
        elif change:
            services.policy_update(policy=form.policy(), description=form.cleaned_data["description"])
        else:
            row = services.policy_create(policy=form.policy(), description=form.cleaned_data["description"])
            obj.pk = row.pk

    def delete_model(self, request: HttpRequest, obj: HookPolicy) -> None:
        services.policy_delete(policy_id=obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[HookPolicy]) -> None:
        for policy_id in list(queryset.values_list("pk", flat=True)):
            services.policy_delete(policy_id=policy_id)

    def _put(self, request: HttpRequest, obj: HookPolicy) -> None:
        try:
            row = services.policy_get(policy_id=obj.pk)
            services.policy_update(
                policy=replace(policy_of(row), order=obj.order), description=row.description
            )
        except HookRefusal as refusal:
            self.message_user(request, f"{obj.name}: {refusal.message}", messages.ERROR)

    # Switching

    @admin.action(description="Enforce the selected policies", permissions=["change"])
    def enforce_selected(self, request: HttpRequest, queryset: QuerySet[HookPolicy]) -> None:
        self._switch(request, queryset, PolicyMode.ENFORCE)

    @admin.action(description="Only observe with the selected policies", permissions=["change"])
    def observe_selected(self, request: HttpRequest, queryset: QuerySet[HookPolicy]) -> None:
        self._switch(request, queryset, PolicyMode.OBSERVE)

    @admin.action(description="Switch the selected policies off", permissions=["change"])
    def switch_off_selected(self, request: HttpRequest, queryset: QuerySet[HookPolicy]) -> None:
        self._switch(request, queryset, PolicyMode.OFF)

    def _switch(self, request: HttpRequest, queryset: QuerySet[HookPolicy], mode: PolicyMode) -> None:
        for row in queryset:
            try:
                services.policy_set_mode(policy_id=row.pk, mode=mode)
            except HookRefusal as refusal:
                self.message_user(request, f"{row.name}: {refusal.message}", messages.ERROR)
            else:
                self.message_user(request, f"{row.name}: {mode.value}.")
