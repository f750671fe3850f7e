"""The keys of who is signed in: looked at, made where he may, revoked, replaced.

What is allowed is decided where the management API has it decided too (accounts.self_service). A new key is
in the one page that answers the form which made it, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from accounts import services
from accounts.keys import MintedKey
from accounts.models import ApiKey
from accounts.names import MAX_NAME_LENGTH
from accounts.roles import may_open_staff_page
from accounts.scopes import SCOPE_MEANINGS, SELF_SERVICE_SCOPES, Scope
from accounts.self_service import MAKES_NONE, own_key_create, own_key_replace, self_service_bounds
from accounts.sent_forms import SENT_ALREADY, SentForms
from inference.dashboards.key_list import key_list, own_keys

_SENT_FORMS = SentForms("console_sent_key_forms")
_OWN_SCOPES = [(scope.value, SCOPE_MEANINGS[scope]) for scope in Scope if scope in SELF_SERVICE_SCOPES]
GRACES = [
    ("0", "ends at once"),
    ("3600", "goes on for an hour"),
    ("86400", "for a day"),
    ("604800", "for a week"),
]


class KeyForm(forms.Form):
    """`submission_id` makes a form that is sent twice one key."""

    name = forms.CharField(
        label="Name, to tell it from others", max_length=MAX_NAME_LENGTH, strip=False, required=True
    )
    expires_at = forms.DateTimeField(
        label="Ends (UTC); empty: as late as you may",
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    scopes = forms.MultipleChoiceField(
        label="What it may be used for", choices=_OWN_SCOPES, widget=forms.CheckboxSelectMultiple
    )
    submission_id = forms.CharField(widget=forms.HiddenInput, max_length=36)


class ReplaceForm(forms.Form):
    grace = forms.ChoiceField(label="The old key", choices=GRACES)


def _page(view: Callable[..., HttpResponse]) -> Callable[..., Any]:
    """For who has signed in; no cache keeps it."""
    guarded: Callable[..., Any] = require_http_methods(["GET", "HEAD", "POST"])(
        never_cache(login_required(view))
    )
    return guarded


@_page
def keys(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    bounds = self_service_bounds(user=user)
    if request.method == "POST":
        if bounds.max_keys == 0:
            raise PermissionDenied(MAKES_NONE)
        if _SENT_FORMS.has(request):
            messages.warning(request, SENT_ALREADY)
            return redirect("console:keys")
        form = KeyForm(request.POST)
        made = _make(user, form) if form.is_valid() else None
        if made is not None:
            _SENT_FORMS.note(request, form.cleaned_data["submission_id"])
            return _shown_once(request, *made)
    else:
        form = KeyForm(initial={"scopes": [name for name, _ in _OWN_SCOPES], "submission_id": str(uuid4())})
    listed = key_list(user, may_make=bounds.max_keys > 0, now=timezone.now())
    context = {
        "list": listed,
        "bounds": bounds,
        "form": form,
        "can_make": listed.num_live < bounds.max_keys,
        "sees_all": may_open_staff_page(user, "accounts.view_apikey"),
        "makes_in_admin": may_open_staff_page(user, "accounts.add_apikey"),
    }
    return render(request, "console/keys.html", context, status=400 if form.errors else 200)


def _make(user: Any, form: KeyForm) -> tuple[ApiKey, MintedKey] | None:
    """None where it could not be; the form says why."""
    given = form.cleaned_data
    try:
        return own_key_create(
            user=user,
            by=None,
            name=given["name"],
            expires_at=given["expires_at"],
            scopes=frozenset(map(Scope, given["scopes"])),
        )
    except PermissionDenied as refusal:
        form.add_error(None, str(refusal))
    except ValidationError as problem:
        known = {name: errors for name, errors in problem.message_dict.items() if name in form.fields}
        form.add_error(None, ValidationError(known or problem.messages))
    return None


@_page
def revoke(request: HttpRequest, key_id: int) -> HttpResponse:
    row = _own(request, key_id)
    if request.method != "POST":
        return render(request, "console/key_revoke.html", {"key": row})
    services.api_key_revoke(key=row)
    messages.success(request, f"{row} is revoked: no process accepts it after 5 seconds.")
    return redirect("console:keys")


@_page
def replace(request: HttpRequest, key_id: int) -> HttpResponse:
    """Sending the form again shows nothing: a key is replaced only once."""
    row = _own(request, key_id)
    form = ReplaceForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return render(request, "console/key_replace.html", {"key": row, "form": form})
    user: Any = request.user
    try:
        grace = timedelta(seconds=int(form.cleaned_data["grace"]))
        made = own_key_replace(user=user, key=row, grace=grace)
    except ValidationError as problem:
        messages.error(request, " ".join(problem.messages))
        return redirect("console:keys")
    return _shown_once(request, *made)


def _own(request: HttpRequest, key_id: int) -> ApiKey:
    """Another's key looks like one that does not exist."""
    found: ApiKey | None = own_keys(request.user).filter(pk=key_id).first()
    if found is None:
        raise Http404
    return found


def _shown_once(request: HttpRequest, row: ApiKey, minted: MintedKey) -> HttpResponse:
    return render(request, "console/key_shown_once.html", {"key": row, "minted": minted})
