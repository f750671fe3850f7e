"""The page on which the service is closed to new requests and opened again, and the banner that says so."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import SimpleLazyObject
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts.roles import may_open_staff_page
from inference.dashboards.row_ids import row_id
from inference.domain.maintenance import DEFAULT_MESSAGE
from inference.maintenance.selectors import maintenance_get
from inference.maintenance.services import MaintenancePlan, maintenance_begin, maintenance_end
from inference.models.maintenance import MAX_LET_KEYS, MAX_MESSAGE_LENGTH

VIEW, CHANGE = "inference.view_maintenance", "inference.change_maintenance"


class MaintenanceForm(forms.Form):
    message = forms.CharField(
        label="Message to clients and people in the console",
        required=False,
        max_length=MAX_MESSAGE_LENGTH,
        widget=forms.TextInput(attrs={"placeholder": DEFAULT_MESSAGE}),
    )
    until = forms.DateTimeField(
        label="Planned end (UTC)",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    refuses_queued = forms.BooleanField(label="Refuse what waits for a lane as well", required=False)
    lets_administrators = forms.BooleanField(label="Let administrators' keys through", required=False)
    let_key_ids = forms.CharField(
        label="Let these keys through (ids, separated by commas)",
        required=False,
        max_length=20 * MAX_LET_KEYS,
    )

    def clean_let_key_ids(self) -> list[int]:
        parts = [part.strip() for part in self.cleaned_data["let_key_ids"].split(",") if part.strip()]
        ids = [found for part in parts if (found := row_id(part)) is not None]
        if len(ids) < len(parts):
            raise ValidationError("Ids are whole numbers, separated by commas.")
        return ids


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def maintenance(request: HttpRequest) -> HttpResponse:
    user, row = request.user, maintenance_get()
    may_change = may_open_staff_page(user, CHANGE)
    if not may_open_staff_page(user, VIEW) or (request.method == "POST" and not may_change):
        raise PermissionDenied
    form = MaintenanceForm(
        request.POST if request.method == "POST" else None,
        initial={
            "message": row.message,
            "until": row.until,
            "refuses_queued": row.refuses_queued,
            "lets_administrators": row.lets_administrators,
            "let_key_ids": ", ".join(map(str, row.let_key_ids)),
        },
    )
    if request.method == "POST":
        if request.POST.get("action") == "end":
            maintenance_end()
            messages.success(request, "Open: new requests are taken again within 5 seconds.")
            return redirect("console:maintenance")
        if form.is_valid() and _begin(form):
            messages.success(request, "Closed: new requests are refused within 5 seconds.")
            return redirect("console:maintenance")
    context = {"row": row, "form": form, "may_change": may_change}
    return render(request, "console/maintenance.html", context, status=400 if form.errors else 200)


def _begin(form: MaintenanceForm) -> bool:
    """Whether it could be; otherwise the form says why not."""
    try:
        maintenance_begin(plan=MaintenancePlan(**form.cleaned_data))
    except ValidationError as problem:
        form.add_error(None, problem)
        return False
    return True


def banner(request: HttpRequest) -> dict[str, Any]:
    """A context processor: `maintenance`, for who is signed in. Asks nothing before a page uses it."""
    return {"maintenance": SimpleLazyObject(lambda: _row_for(request))}


def _row_for(request: HttpRequest) -> Any:
    user = getattr(request, "user", None)
    return maintenance_get() if user is not None and user.is_authenticated else None
