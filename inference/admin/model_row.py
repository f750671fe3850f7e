"""Models in Django's admin, with their adapters, and what each process says of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from unfold.admin import TabularInline

from accounts.history_page import HistoryPage
from accounts.page_admin import PageAdmin
from inference.admin.model_forms import ModelAdapterFormSet, ModelRowForm
from inference.domain.errors import SkippyError
from inference.model_rows import services
from inference.model_rows.selectors import model_names_dangling, model_rows_with_reports
from inference.models import ModelAdapter, ModelRow


class ModelAdapterInline(TabularInline):
    model = ModelAdapter
    formset = ModelAdapterFormSet
    extra = 0


@admin.register(ModelRow)
class ModelRowAdmin(HistoryPage, PageAdmin):
    """All that is changed here is changed by the services, as a whole."""

    form = ModelRowForm
    inlines: ClassVar = [ModelAdapterInline]
    list_display: ClassVar = ["model_id", "source", "load_policy", "is_default", "is_enabled", "state"]
    list_filter: ClassVar = ["is_enabled", "load_policy"]
    list_per_page = 100
    search_fields: ClassVar = ["model_id", "names__name", "source"]
    autocomplete_fields: ClassVar = ["teams", "keys"]
    readonly_fields: ClassVar = ["status", "wants_loaded", "revision", "created_at", "updated_at"]
    actions: ClassVar = ["load_selected", "unload_selected"]
    fieldsets: ClassVar = [
        (
            None,
            {
                "fields": [
                    "model_id",
                    "aliases",
                    "source",
                    "projector_source",
                    "is_enabled",
                    "is_default",
                    "load_policy",
                    "idle_unload_s",
                    "has_embeddings",
                ]
            },
        ),
        ("Access", {"fields": ["is_open", "teams", "keys"]}),
        ("Settings", {"fields": ["engine", "admission", "chat_defaults", "completion_defaults"]}),
        (
            "Speculation",
            {
                "fields": [
                    "speculation_mode",
                    "max_draft_tokens",
                    "allows_speculation_requests",
                    "draft_source",
                ]
            },
        ),
        ("Status", {"fields": ["status", "wants_loaded", "revision", "created_at", "updated_at"]}),
    ]

    # What is shown

    def get_queryset(self, request: HttpRequest) -> QuerySet[ModelRow]:
        return model_rows_with_reports()

    @admin.display(description="state")
    def state(self, obj: ModelRow) -> str:
        """The states of all processes, each with their number."""
        states = Counter(report.state for report in obj.fresh_reports)  # type: ignore[attr-defined]
        return ", ".join(f"{number} {state}" for state, number in sorted(states.items())) or "-"

    @admin.display(description="what processes say")
    def status(self, obj: ModelRow) -> str:
        lines = [
            f"{report.process_name}: {report.state}, {report.num_running} running, "
            f"{report.memory_bytes / 2**20:.0f} MiB{f' ({report.cause})' if report.cause else ''}"
            for report in getattr(obj, "fresh_reports", ())
        ]
        return "\n".join(lines) or "-"

    # Adding, changing and removing

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().changeform_view(request, *args, **kwargs)
        except SkippyError as problem:  # somebody was faster
            self.message_user(request, problem.message, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def save_model(self, request: HttpRequest, obj: ModelRow, form: Any, change: bool) -> None:
        """Nothing yet: model, adapters and access are written together."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        (formset,) = formsets
        formset.save(commit=False)  # tells Django's own log what is changed, and writes nothing
        settings = form.settings(formset.adapters())
        is_enabled = form.cleaned_data["is_enabled"]
        if change:
            services.model_update(row_id=form.instance.pk, settings=settings, is_enabled=is_enabled)
        else:
            form.instance.pk = services.model_create(settings=settings, is_enabled=is_enabled).pk
        self._warn_of_dangling_names(request)

    def delete_model(self, request: HttpRequest, obj: ModelRow) -> None:
        services.model_delete(row_id=obj.pk)
        self._warn_of_dangling_names(request)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ModelRow]) -> None:
        for row_id in queryset.values_list("pk", flat=True):
            services.model_delete(row_id=row_id)
        self._warn_of_dangling_names(request)

    def _warn_of_dangling_names(self, request: HttpRequest) -> None:
        names = model_names_dangling()
        if names:
            listed = ", ".join(names)
            self.message_user(
                request,
                f"Keys, users or teams are held to models that there are not: {listed}.",
                messages.WARNING,
            )

    # Loading and unloading

    @admin.action(description="Load the selected models", permissions=["change"])
    def load_selected(self, request: HttpRequest, queryset: QuerySet[ModelRow]) -> None:
        self._say(request, queryset, wants_loaded=True)

    @admin.action(description="Unload the selected models", permissions=["change"])
    def unload_selected(self, request: HttpRequest, queryset: QuerySet[ModelRow]) -> None:
        self._say(request, queryset, wants_loaded=False)

    def _say(self, request: HttpRequest, queryset: QuerySet[ModelRow], *, wants_loaded: bool) -> None:
        done = "loaded" if wants_loaded else "unloaded"
        for row in queryset:
            try:
                services.model_wants_loaded(row_id=row.pk, wants_loaded=wants_loaded)
            except SkippyError as problem:
                self.message_user(request, f"{row.model_id}: {problem.message}", messages.ERROR)
            else:
                self.message_user(request, f"{row.model_id} is to be {done}.")
