"""Pages for who does not come in, each with why."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def refused_page(request: HttpRequest, reason: str) -> HttpResponse:
    """403; `reason` is for the person."""
    return render(request, "console/account/refused.html", {"reason": reason}, status=403)


def provider_failed_page(request: HttpRequest, *, status: int, is_cancelled: bool = False) -> HttpResponse:
    """One page for all that goes wrong on the way to the provider and back; the log says what it was.
    `is_cancelled`: nothing did, the person went back."""
    told = {"is_cancelled": is_cancelled, "provider_name": settings.PROVIDER_NAME}
    return render(request, "console/account/provider.html", told, status=status)
