"""What allauth asks of this site about accounts: nobody signs himself up, each try is counted, one answer."""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from django.contrib.auth import authenticate
from django.http import HttpRequest, HttpResponse

from accounts.sign_in.attempts import SignInTry, attempt_succeeded
from accounts.sign_in.devices import device_of
from accounts.sign_in.factor_box import factor_box
from accounts.sign_in.passwords import user_counted
from accounts.sign_in.pauses import begin_or_pause, code_begin_or_pause
from accounts.sign_in.refusals import refused_page

_log = logging.getLogger(__name__)
WRONG = "The user name or the password is not right."
# Who has no password changes his second factor soon after his provider sent him, and not later.
FRESH_S = 600.0


class SignInAdapter(DefaultAccountAdapter):
    error_messages: ClassVar = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": WRONG,
        "email_password_mismatch": WRONG,
        "incorrect_password": "The password is not right.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_ajax(self, request: HttpRequest) -> bool:
        return False  # pages alone

    def add_message(self, *args: Any, message: str | None = None, **kwargs: Any) -> None:
        """allauth's own sentences are not shown; the pages say what happened."""

    def get_login_stages(self) -> list[str]:
        return ["accounts.sign_in.stages.SecondFactorStage"]

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        name = credentials["username"]
        user_id = user_counted(name)
        address = request.META.get("REMOTE_ADDR") or "unknown"
        counted = begin_or_pause(request, SignInTry(address, name, user_id, device_of(request, user_id)))
        user = authenticate(request, username=name, password=credentials["password"])
        if user is not None:
            attempt_succeeded(counted)
        else:
            # What was typed may be a password in the wrong field, so it stands nowhere.
            _log.info("signing in failed: user %s, address %s", user_id or "unknown", address)
        return user

    def reauthenticate(self, user: Any, password: str) -> bool:
        request = context.request
        counted = code_begin_or_pause(request, user.pk)
        is_right = bool(user.check_password(password))
        if is_right:
            attempt_succeeded(counted)
        return is_right

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        request = context.request
        if self.get_reauthentication_methods(request.user):
            return True
        records = get_authentication_records(request, request.user)
        return not any(time.time() - record["at"] < FRESH_S for record in records)

    def respond_user_inactive(self, request: HttpRequest, user: Any) -> HttpResponse:
        return refused_page(request, "This account is switched off. An administrator can switch it on.")


class SecondFactorAdapter(DefaultMFAAdapter):
    """Secrets are stored encrypted, by the box that the site names."""

    error_messages: ClassVar = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is not right.",
    }

    def get_totp_issuer(self) -> str:
        # Without the port: a colon ends the issuer's name for some apps.
        return f"Skippy {urlsplit(f'//{context.request.get_host()}').hostname}"

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def encrypt(self, text: str) -> str:
        return factor_box().seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Raises ValueError where it was encrypted with another key."""
        return factor_box().open(encrypted_text)
