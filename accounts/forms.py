"""What an administrator fills in about keys. What a service would refuse is refused here, at its field."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminRadioSelectWidget

from accounts.models import ApiKey
from accounts.models.limit_columns import LIMIT_COLUMNS
from accounts.refusals import KEEPS_OTHERS_TEXT
from accounts.roles import may_have_text_kept
from accounts.scopes import DEFAULT_SCOPES, SCOPE_MEANINGS, Scope


def _new_submission_id() -> str:
    return secrets.token_urlsafe(16)


class ApiKeyChangeForm(forms.ModelForm):
    """Name, end, scopes, policy and limits of a key that is there. `actor` is who fills it in."""

    actor: Any = None

    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, f"{scope.value}: {SCOPE_MEANINGS[scope]}") for scope in Scope],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        help_text="What the key may be used for.",
    )

    class Meta:
        model = ApiKey
        fields: ClassVar = [
            "name",
            "expires_at",
            "scopes",
            "priority",
            "has_session_trust",
            "keeps_text",
            *LIMIT_COLUMNS,
        ]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean()
        owner = cleaned.get("user", getattr(self.instance, "user", None)) if self.is_bound else None
        if (
            cleaned.get("keeps_text")
            and "keeps_text" in self.changed_data
            and owner is not None
            and not may_have_text_kept(self.actor, owner_id=owner.pk)
        ):
            self.add_error("keeps_text", forms.ValidationError(KEEPS_OTHERS_TEXT, code="others_text"))
        return cleaned

    def clean_expires_at(self) -> datetime | None:
        if "expires_at" not in self.changed_data:
            # The widget shows whole seconds; do not move the end by the rest of one.
            return self.instance.expires_at
        expires_at: datetime | None = self.cleaned_data["expires_at"]
        if expires_at is not None and expires_at <= timezone.now():
            raise forms.ValidationError("The expiry must lie in the future.", code="past")
        return expires_at


class ApiKeyAddForm(ApiKeyChangeForm):
    """A new key. `submission_id` tells a form that is sent again (reload, back) from a new one."""

    submission_id = forms.CharField(widget=forms.HiddenInput, max_length=64, initial=_new_submission_id)

    class Meta(ApiKeyChangeForm.Meta):
        fields: ClassVar = ["user", *ApiKeyChangeForm.Meta.fields]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # As for keys that are made elsewhere: one without scopes opens nothing.
        self.fields["scopes"].initial = sorted(DEFAULT_SCOPES)

    def clean_user(self) -> Any:
        user = self.cleaned_data["user"]
        if not user.is_active:
            raise forms.ValidationError("This user is inactive: a key would open nothing.", code="inactive")
        return user


class ApiKeyRotateForm(forms.Form):
    """How long the old key goes on beside the new one."""

    GRACES: ClassVar = {
        "0": ("The old key ends at once", timedelta(0)),
        "1h": ("The old key works for another hour", timedelta(hours=1)),
        "1d": ("The old key works for another day", timedelta(days=1)),
        "7d": ("The old key works for another week", timedelta(days=7)),
    }

    grace = forms.ChoiceField(
        choices=[(value, label) for value, (label, _) in GRACES.items()],
        initial="0",
        widget=UnfoldAdminRadioSelectWidget,
    )

    def clean_grace(self) -> timedelta:
        grace: timedelta = self.GRACES[self.cleaned_data["grace"]][1]
        return grace
