"""What somebody sees and changes of his own account: password, e-mail, second factor, where he signed in."""

from __future__ import annotations

from functools import wraps
from http import HTTPStatus
from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.views import IndexView
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.views import GenerateRecoveryCodesView, ViewRecoveryCodesView
from allauth.mfa.totp.views import ActivateTOTPView, DeactivateTOTPView
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.views import PasswordChangeView
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe

from accounts.models.administrative_change import ChangeAction
from accounts.sign_in.events import factor_change_record, factor_was_set_up, sign_ins_recent
from accounts.sign_in.forms import EmailForm
from accounts.sign_in.qr_code import qr_code
from accounts.sign_in.second_factor import has_factor, must_have_factor, totp_step_use
from accounts.user_services import user_update

_APP = "allauth.mfa"
# Headers by which browsers say that nobody looks yet; the first is the standard's.
_PURPOSES = ("Sec-Purpose", "Purpose", "X-Moz")


def asked_again(view: Any) -> Any:
    """The password (or a code) again, if that was not just done. What was sent is then not kept for
    afterwards, as allauth would in the session: it may be a password."""
    checked = reauthentication_required(app=_APP)(view)

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "GET" and is_reauthentication_required(request, app=_APP):
            return redirect(request.path)
        answer: HttpResponse = checked(request, *args, **kwargs)
        return answer

    return guarded


@require_safe
@never_cache
@login_required
def account(request: HttpRequest) -> HttpResponse:
    user: Any = request.user
    told = {
        "has_factor": has_factor(user),
        "must_have_factor": must_have_factor(user),
        "has_password": user.has_usable_password(),
        "links": SocialAccount.objects.filter(user_id=user.pk).order_by("pk"),
        "provider_name": settings.PROVIDER_NAME,
        "may_change_email": may_change_email(),
        "sign_ins": sign_ins_recent(user.pk),
    }
    return render(request, "console/account/account.html", told)


def may_change_email() -> bool:
    """Not where the address is what a provider's users are found by: whoever entered another's address would
    be given that person's sign-in."""
    return str(settings.PROVIDER_LINKS_BY) != "email"


@never_cache
@login_required
@asked_again
def email(request: HttpRequest) -> HttpResponse:
    if not may_change_email():
        raise PermissionDenied("Addresses are given by administrators here, since people are found by them.")
    form = EmailForm(request.POST or None, user=request.user)
    if request.method == "POST" and form.is_valid():
        user_update(user=request.user, email=form.cleaned_data["email"], may_change_staff=True)
        messages.success(request, "Your e-mail address is changed.")
        return redirect("account")
    return render(request, "console/account/email.html", {"form": form})


@method_decorator([sensitive_post_parameters(), never_cache, login_required, asked_again], name="dispatch")
class PasswordView(PasswordChangeView):
    """Django's, which keeps this session and so ends all others. The old password was asked for just now."""

    form_class = SetPasswordForm
    template_name = "console/account/password.html"
    success_url = reverse_lazy("account")

    def dispatch(self, *args: Any, **kwargs: Any) -> HttpResponse:
        # With one of his own he would go on signing in after his provider has let him go.
        if not self.request.user.has_usable_password():
            raise PermissionDenied("You log in without a password.")
        answer: HttpResponse = super().dispatch(*args, **kwargs)
        return answer

    def form_valid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        messages.success(self.request, "Your password is changed. Other sessions of yours have ended.")
        return answer


class SecurityView(IndexView):
    template_name = "console/account/security.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = super().get_context_data(**kwargs)
        return {
            **found,
            "has_factor": "totp" in found["authenticators"],
            "must_have_factor": must_have_factor(self.request.user),
        }


class SetUpView(ActivateTOTPView):
    template_name = "console/account/set_up.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if has_factor(request.user):
            # allauth would lead to where it is removed: after a second click, too.
            return redirect("mfa_view_recovery_codes" if request.method == "POST" else "mfa_index")
        answer: HttpResponse = super().dispatch(request, *args, **kwargs)
        return answer

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        found = super(ActivateTOTPView, self).get_context_data(**kwargs)
        secret = found["form"].secret
        url = get_adapter().build_totp_url(self.request.user, secret)
        groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
        return {**found, "qr": qr_code(url), "secret": groups, "totp_url": url}

    @method_decorator(transaction.atomic)
    def form_valid(self, form: Any) -> HttpResponse:
        # Of two at once (a double click, two tabs) the second waits here, and finds the first one's factor.
        user = get_user_model().objects.select_for_update(no_key=True).get(pk=self.request.user.pk)
        if has_factor(user):
            return redirect("mfa_view_recovery_codes")
        answer: HttpResponse = super().form_valid(form)
        totp_step_use(user=self.request.user, step=form.step)
        factor_was_set_up(self.request, self.request.user)
        return answer


class RemoveView(DeactivateTOTPView):
    template_name = "console/account/remove.html"

    @method_decorator(transaction.atomic)
    def form_valid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        return answer


class CodesView(ViewRecoveryCodesView):
    """Codes are shown once: to a person, not to what asks for the page ahead of him, or for its headers."""

    template_name = "console/account/codes.html"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if any("prefetch" in request.headers.get(name, "").lower() for name in _PURPOSES):
            return HttpResponse(status=HTTPStatus.SERVICE_UNAVAILABLE)  # which browsers do not keep
        answer: HttpResponse = super().get(request, *args, **kwargs)
        return answer

    def head(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponse()


class NewCodesView(GenerateRecoveryCodesView):
    template_name = "console/account/new_codes.html"

    @method_decorator(transaction.atomic)
    def form_valid(self, form: Any) -> HttpResponse:
        answer: HttpResponse = super().form_valid(form)
        factor_change_record(self.request.user, ChangeAction.CHANGED, Authenticator.Type.RECOVERY_CODES)
        return answer


security = never_cache(login_required(SecurityView.as_view()))
set_up, remove, codes, new_codes = (
    never_cache(login_required(asked_again(view.as_view())))
    for view in (SetUpView, RemoveView, CodesView, NewCodesView)
)
password = PasswordView.as_view()
