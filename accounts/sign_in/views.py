"""The door itself: name and password, code, out again."""

from __future__ import annotations

from typing import Any

from allauth.account.internal import flows
from allauth.account.views import LoginView, ReauthenticateView
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.base.views import ReauthenticateView as CodeReauthenticateView
from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from accounts.sign_in.refusals import refused_page


class SignInView(LoginView):
    template_name = "console/login.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "provider_name": settings.PROVIDER_NAME}


class CodeView(AuthenticateView):
    template_name = "console/account/code.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        # What has no code allauth takes for a security key's answer, which there are none of here.
        if request.method == "POST" and "code" not in request.POST:
            return redirect("mfa_authenticate")
        answer: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return answer


class PasswordAgainView(ReauthenticateView):
    template_name = "console/account/again.html"


class CodeAgainView(CodeReauthenticateView):
    template_name = "console/account/again.html"


sign_in = SignInView.as_view()
code = CodeView.as_view()
password_again = never_cache(PasswordAgainView.as_view())
code_again = never_cache(CodeAgainView.as_view())


@require_POST
@never_cache
def sign_out(request: HttpRequest) -> HttpResponse:
    """Also for who has given his password and not yet his code."""
    flows.logout.logout(request, show_message=False)
    return redirect("account_login")


@never_cache
def admin_door(request: HttpRequest) -> HttpResponse:
    """Where the admin sends who may not see a page of it: to the one door, or to a page that says so."""
    wanted = request.GET.get(REDIRECT_FIELD_NAME, "")
    is_ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    wanted = wanted if is_ours else "/admin/"
    user = request.user
    if not user.is_authenticated:
        return redirect_to_login(wanted)
    if user.is_active and user.is_staff:
        return redirect(wanted)
    return refused_page(request, f"{user.get_username()} may not open the administration.")
