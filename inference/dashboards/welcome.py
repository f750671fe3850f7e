"""Where an invitation or a password link leads: the page on which its person sets a password.

The address is the secret. So the page is kept by nobody (`no-store`) and tells only the origin as Referer,
also to our own files and pages, since proxies log it; `no-referrer` would have the browser send `Origin:
null` with the form, which the CSRF check refuses. Opening the page uses nothing up. A link that does not open
(wrong, used, revoked, expired) always shows the same page.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.forms import SetPasswordForm
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from accounts.models.password_link import LinkPurpose
from accounts.password_links import MAX_PASSWORD_LENGTH, LinkClosed, password_link_find, password_link_use

REFERRER_POLICY = "strict-origin"


class WelcomeForm(SetPasswordForm):
    """Django's two fields with its validators; a password is no place to put a file into."""

    def __init__(self, user: Any, data: Any = None) -> None:
        super().__init__(user, data)
        for field in self.fields.values():
            field.validators.append(MaxLengthValidator(MAX_PASSWORD_LENGTH))


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters()
def welcome(request: HttpRequest, token: str) -> HttpResponse:
    try:
        response = _answer(request, token)
    except LinkClosed:
        response = render(request, "console/welcome_closed.html", status=404)
    response["Referrer-Policy"] = REFERRER_POLICY
    return response


def _answer(request: HttpRequest, token: str) -> HttpResponse:
    link = password_link_find(token=token)
    form = WelcomeForm(link.user, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            password_link_use(
                token=token,
                password=form.cleaned_data["new_password1"],
                request_id=getattr(request, "request_id", None),
            )
        except ValidationError as error:
            form.add_error("new_password2", error)
        else:
            return _to_login(request, link.user.get_username(), is_new=link.purpose == LinkPurpose.INVITATION)
    context = {"form": form, "link": link, "is_invitation": link.purpose == LinkPurpose.INVITATION}
    return render(request, "console/welcome.html", context)


def _to_login(request: HttpRequest, username: str, *, is_new: bool) -> HttpResponse:
    """Signing in is the login page's affair, which may want a second factor. Whoever was signed in here
    before (who tried his own link, say) is not any more, or that page would lead on as him."""
    if request.user.is_authenticated:
        logout(request)
    messages.success(request, f"Your password is set. Log in as {username}.")
    query = f"?{urlencode({'next': reverse('console:start')})}" if is_new else ""
    return HttpResponseRedirect(resolve_url(settings.LOGIN_URL) + query)
