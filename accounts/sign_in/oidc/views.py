"""To the provider and back."""

from __future__ import annotations

import logging
from typing import Any

from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.conf import settings
from django.db import DataError, IntegrityError
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException

from accounts.sign_in.oidc.provider import OidcAdapter
from accounts.sign_in.refusals import provider_failed_page

_log = logging.getLogger(__name__)
PROVIDER_ID = "oidc"
# It is away or says nonsense, also such as no column can hold; or two first sign-ins of one person, of which
# one comes too late.
_GOES_WRONG = (
    RequestException,
    OAuth2Error,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    DataError,
    IntegrityError,
)


def _answered(request: HttpRequest, view: Any) -> HttpResponseBase:
    """What a provider can do wrong (be away, be slow, say nonsense) ends in a page."""
    if not settings.PROVIDER_NAME:
        raise Http404
    try:
        answer: HttpResponseBase = view.adapter_view(OidcAdapter(request, PROVIDER_ID))(request)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    except _GOES_WRONG as problem:
        _log.warning("the provider cannot be used: %s %s", type(problem).__name__, str(problem)[:300])
        return provider_failed_page(request, status=502)
    return answer


@require_POST
@never_cache
def to_provider(request: HttpRequest) -> HttpResponseBase:
    """A page that leads on, and no redirect: our policy lets forms go nowhere but here, and browsers hold
    that against where a form's answer leads, too."""
    answer = _answered(request, OAuth2LoginView)
    if not isinstance(answer, HttpResponseRedirect):
        return answer
    told = {"url": answer.url, "provider_name": settings.PROVIDER_NAME}
    return render(request, "console/account/to_provider.html", told)


@require_GET
@never_cache
def from_provider(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """There is one provider; allauth makes the address with its id."""
    return _answered(request, OAuth2CallbackView)
