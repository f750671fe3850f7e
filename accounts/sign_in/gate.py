"""Lets nobody on to a page who must have a second factor and has none, or came in without it.

Django's middleware, for console and admin; the management API, the live page's socket and the playground's
passes ask the same question themselves (`second_factor.is_factor_missing`).
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.deprecation import MiddlewareMixin

from accounts.sign_in.devices import device_remember
from accounts.sign_in.second_factor import has_factor, is_factor_missing

GUARDED = ("/console/", "/admin/")
# What leads to a second factor, and out.
OPEN = frozenset(
    {
        "account_login",
        "account_logout",
        "login",
        "logout",
        "jsi18n",
        "welcome",
        "account_reauthenticate",
        "mfa_reauthenticate",
        "mfa_index",
        "mfa_activate_totp",
    }
)
NEEDED = "Your account needs a second factor. Set it up here, then everything else opens."
AGAIN = "Your account needs a second factor, and this session was begun without it. Please log in again."


class SignInGate(MiddlewareMixin):
    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        if not request.path_info.startswith(GUARDED) or request.resolver_match.url_name in OPEN:
            return None
        user = request.user
        if not user.is_authenticated or not is_factor_missing(user, request.session):
            return None
        if has_factor(user):
            logout(request)
            messages.warning(request, AGAIN)
            return redirect_to_login(request.get_full_path() if request.method == "GET" else "/console/")
        messages.warning(request, NEEDED)
        return redirect("mfa_index")

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        user_id = getattr(request, "remembers_device_of", None)
        if user_id is not None:
            device_remember(request, response, user_id)
        return response
