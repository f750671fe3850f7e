"""What is filled in to invite somebody."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from unfold.widgets import (
    UnfoldAdminEmailInputWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from accounts.models import Team
from accounts.models.user_policy import MAX_OWN_KEYS
from accounts.roles import Role

MAX_VALID_DAYS = 90


class InvitationForm(forms.Form):
    """`roles` are those that may be given; only where there are several one is asked for."""

    ROLE_WORDS: ClassVar = {
        Role.KEY_OWNER: "key owner: sees his own usage, no admin",
        Role.AUDITOR: "auditor: reads, changes nothing",
        Role.OPERATOR: "operator: keys, teams, models, usage of everybody",
        Role.ADMINISTRATOR: "administrator: everything, also roles and policies",
    }

    username = forms.CharField(
        label="User name", max_length=150, widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"})
    )
    email = forms.EmailField(
        label="E-mail", required=False, max_length=254, widget=UnfoldAdminEmailInputWidget()
    )
    team = forms.ModelChoiceField(
        Team.objects.all(), required=False, empty_label="none", widget=UnfoldAdminSelectWidget()
    )
    role = forms.ChoiceField(initial=Role.KEY_OWNER.value, widget=UnfoldAdminSelectWidget())
    max_own_keys = forms.IntegerField(
        label="API keys that he may make himself",
        initial=0,
        min_value=0,
        max_value=MAX_OWN_KEYS,
        widget=UnfoldAdminIntegerFieldWidget(),
    )
    valid_days = forms.IntegerField(
        label="Days that the link is good for",
        min_value=1,
        max_value=MAX_VALID_DAYS,
        widget=UnfoldAdminIntegerFieldWidget(),
    )
    sends_mail = forms.BooleanField(
        label="Send the link by mail as well", required=False, initial=True, widget=UnfoldBooleanWidget()
    )

    def __init__(self, data: Any = None, *, roles: Sequence[Role]) -> None:
        super().__init__(data)
        words = [(role.value, text) for role, text in self.ROLE_WORDS.items() if role in roles]
        self.fields["role"].choices = words
        self.fields["valid_days"].initial = settings.INVITATION_VALID_FOR.days
        if not settings.HAS_MAIL_SERVER:
            del self.fields["sends_mail"]

    @property
    def wants_mail(self) -> bool:
        return bool(self.cleaned_data.get("sends_mail"))

    def invitation(self) -> dict[str, Any]:
        """The arguments of `user_invite`."""
        given = self.cleaned_data
        return {
            "username": given["username"],
            "email": given["email"],
            "team": given["team"],
            "role": Role(given["role"]),
            "max_own_keys": given["max_own_keys"],
            "valid_for": timedelta(days=given["valid_days"]),
        }

    def add_errors(self, error: ValidationError) -> None:
        """What the service refuses stands at its field, or above all of them."""
        for name, problems in getattr(error, "error_dict", {None: [error]}).items():
            self.add_error(name if name in self.fields else None, problems)
