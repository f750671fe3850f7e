"""The forms of signing in: name and password, codes, the password again."""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.forms import LoginForm
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.forms import ActivateTOTPForm
from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from accounts.sign_in.attempts import attempt_succeeded
from accounts.sign_in.pauses import code_begin_or_pause
from accounts.sign_in.second_factor import totp_accept, totp_step

_log = logging.getLogger(__name__)
MAX_NAME_LENGTH = 254
MAX_PASSWORD_LENGTH = 4096
WRONG_CODE = "This code is not right, or was used already. Codes change every 30 seconds."
UNREADABLE = (
    "Your second factor cannot be read: the service's secret key is another one than when it was set up. "
    "Ask whoever runs this service to remove it (docs/operations.md)."
)


class SignInForm(LoginForm):
    """allauth's, under the names that password managers know."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"] = forms.CharField(
            label="User name or e-mail",
            max_length=MAX_NAME_LENGTH,
            widget=forms.TextInput(
                attrs={
                    "autocomplete": "username",
                    "autocapitalize": "none",
                    "autofocus": True,
                    "spellcheck": "false",
                }
            ),
        )
        self.fields["password"] = forms.CharField(
            label="Password",
            strip=False,
            max_length=MAX_PASSWORD_LENGTH,
            widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        )

    def add_prefix(self, field_name: str) -> str:
        return str(super().add_prefix("username" if field_name == "login" else field_name))

    def user_credentials(self) -> dict[str, str]:
        return {"username": self.cleaned_data["login"], "password": self.cleaned_data["password"]}


class _CodeField(forms.CharField):
    """A code with or without the spaces that apps show in it."""

    def __init__(self, *, has_focus: bool = True, **kwargs: Any) -> None:
        attributes = {"autocomplete": "one-time-code", "autofocus": has_focus, "spellcheck": "false"}
        super().__init__(max_length=32, widget=forms.TextInput(attrs=attributes), **kwargs)

    def to_python(self, value: Any) -> str:
        return "".join(str(super().to_python(value)).split())


class _Code(forms.Form):
    """Accepts a code of the app, or a recovery code, once each. Tries are counted."""

    user: Any
    authenticator: Any
    code = _CodeField(label="Code")

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        counted = code_begin_or_pause(context.request, self.user.pk)
        for row in Authenticator.objects.filter(user_id=self.user.pk).order_by("-type"):
            if _is_accepted(row, code):
                attempt_succeeded(counted)
                row.user = self.user
                self.authenticator = row
                return code
        _log.info("a second factor was refused: user %s", self.user.pk)
        raise ValidationError(WRONG_CODE)


class SignInCodeForm(_Code, AuthenticateForm):
    """At sign-in."""


class CodeAgainForm(_Code, ReauthenticateForm):
    """Where something is changed that matters, by who has no password."""


class SetUpForm(ActivateTOTPForm):
    """The first code of a new app shows that it has the secret."""

    # No autofocus: on a phone it would scroll the QR code away.
    code = _CodeField(label="Code that the app shows", has_focus=False)
    step: int

    def clean_code(self) -> str:
        counted = code_begin_or_pause(context.request, self.user.pk)
        code: str = self.cleaned_data["code"]
        step = totp_step(self.secret, code)
        if step is None:
            raise ValidationError("This code is not right. Does the clock of the device show the right time?")
        attempt_succeeded(counted)
        self.step = step
        return code


class EmailForm(forms.Form):
    """One's own address."""

    email = forms.EmailField(label="E-mail", required=False, max_length=MAX_NAME_LENGTH)

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, initial={"email": user.email}, **kwargs)
        self._user = user

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        others = get_user_model().objects.exclude(pk=self._user.pk)
        # Somebody else's address, or his name, would be two people's at the door.
        if email and (
            others.filter(email__iexact=email).exists() or others.filter(username__iexact=email).exists()
        ):
            raise ValidationError("This address cannot be used.")
        return email


def _is_accepted(row: Authenticator, code: str) -> bool:
    try:
        if row.type == Authenticator.Type.TOTP:
            return totp_accept(authenticator_id=row.pk, code=code)
        if row.type == Authenticator.Type.RECOVERY_CODES:
            return bool(row.wrap().validate_code(code))
    except ValueError:
        _log.exception("the second factor of user %s cannot be read", row.user_id)
        raise ValidationError(UNREADABLE) from None
    return False
