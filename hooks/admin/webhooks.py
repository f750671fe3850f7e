"""Webhooks in Django's admin. A secret is written and never shown."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminPasswordWidget

from hooks.action_form.forms import ACTION_FORMS
from hooks.admin.served_admin import ServedAdmin
from hooks.contracts.actions import CallWebhook
from hooks.contracts.refusals import HookRefusal
from hooks.contracts.webhook_settings import BodyPart, WebhookSettings
from hooks.models import Webhook
from hooks.services import webhooks as services
from hooks.services.webhook_columns import WRITTEN_COLUMNS, rights_read


class WebhookForm(forms.ModelForm):
    """What services would refuse is refused here, at its field."""

    parts = forms.MultipleChoiceField(
        label="may see",
        choices=[(part.value, part.value) for part in BodyPart],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        help_text="Parts of requests and answers that are sent to it.",
    )
    actions = forms.MultipleChoiceField(
        label="may answer with",
        choices=[(form.kind, form.kind) for form in ACTION_FORMS if form.action is not CallWebhook],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        help_text="Types of actions.",
    )
    secret = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="Signs each call. It is not shown again; empty: the one that there is stays.",
    )
    seen_revision = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = Webhook
        fields: ClassVar = list(WRITTEN_COLUMNS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            self.initial["seen_revision"] = self.instance.revision

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        before = None if self.instance.pk is None else Webhook.objects.get(pk=self.instance.pk)
        if before is not None and cleaned.get("seen_revision") not in (None, before.revision):
            self.add_error(
                None, "Somebody else changed this webhook meanwhile. Read it again, and then change it."
            )
            return cleaned
        try:
            services.webhook_check(
                settings=self.settings(),
                description=cleaned["description"],
                secret=cleaned["secret"] or None,
                before=before,
            )
        except HookRefusal as refusal:
            self.add_error(refusal.field if refusal.field in self.fields else None, refusal.message)
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        """Columns of which the services say more than that a constraint is broken."""
        excluded: set[str] = super()._get_validation_exclusions()
        return excluded | (set(WRITTEN_COLUMNS) - {"name"})

    def settings(self) -> WebhookSettings:
        given = self.cleaned_data
        return WebhookSettings(
            webhook_id=self.instance.pk or 0,
            secret=given["secret"],
            rights=rights_read(given["parts"], given["actions"]),
            **{
                name: given[name]
                for name in WRITTEN_COLUMNS
                if name not in ("description", "parts", "actions")
            },
        )


@admin.register(Webhook)
class WebhookAdmin(ServedAdmin):
    form = WebhookForm
    list_display: ClassVar = ["name", "host", "parts", "actions", "updated_at"]
    list_per_page = 100
    search_fields: ClassVar = ["name", "description"]
    readonly_fields: ClassVar = ["revision", "created_at", "updated_at"]
    fieldsets: ClassVar = [
        (None, {"fields": ["name", "description", "url", "allows_private", "secret", "seen_revision"]}),
        ("Rights", {"fields": ["parts", "actions"]}),
        (
            "Bounds",
            {"fields": ["deadline_s", "max_retries", "max_in_flight", "max_body_bytes", "max_answer_bytes"]},
        ),
        ("Row", {"fields": ["revision", "created_at", "updated_at"]}),
    ]

    @admin.display(description="host")
    def host(self, obj: Webhook) -> str:
        """The path often is a secret."""
        return WebhookSettings(webhook_id=obj.pk, name=obj.name, url=obj.url, secret="").host

    def save_model(self, request: HttpRequest, obj: Webhook, form: WebhookForm, change: bool) -> None:
        settings, description = form.settings(), form.cleaned_data["description"]
        if change:
            services.webhook_update(
                settings=settings, description=description, secret=settings.secret or None
            )
        else:
            obj.pk = services.webhook_create(settings=settings, description=description).pk

    def delete_model(self, request: HttpRequest, obj: Webhook) -> None:
        services.webhook_delete(webhook_id=obj.pk)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        for row in queryset:
            try:
                services.webhook_delete(webhook_id=row.pk)
            except HookRefusal as refusal:
                self.message_user(request, f"{row.name}: {refusal.message}", messages.ERROR)
