"""What an administrator fills in about a policy. What services would refuse is refused here, at its field."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget

from hooks.action_form import actions_read
from hooks.action_form.window import window_read
from hooks.admin.form_fields import LinesField, PeopleField, WrittenJsonField, people_shown
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode, PolicyScope
from hooks.contracts.refusals import HookRefusal
from hooks.models import HookPolicy
from hooks.services.policies import policy_check
from hooks.services.scope_directory import scope_directory

_WHO = "One in each line: a name, or # and an id. Empty: all."
# The form's fields of what a refusal calls by another name.
_FIELDS = {
    "scope.team_ids": "teams",
    "scope.user_ids": "users",
    "scope.key_ids": "keys",
    "scope.models": "models",
}


class HookPolicyForm(forms.ModelForm):
    """A policy, with whom it is for as names."""

    teams = PeopleField(help_text=_WHO, named=lambda names: scope_directory().teams_named(names))
    users = PeopleField(help_text=_WHO, named=lambda names: scope_directory().users_named(names))
    keys = PeopleField(help_text="One in each line: # and an id. Empty: all.")
    models = LinesField(help_text="One in each line: a model's id. Empty: all.")
    actions = WrittenJsonField(help_text="A list of actions; what there is at which point is written below.")
    window = WrittenJsonField(
        required=False, help_text="Mid-generation: when it is asked. Only what differs from the usual rule."
    )
    condition = forms.CharField(
        required=False,
        strip=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}),
        help_text="A CEL expression of type bool. Empty: always. What it may speak of is written below.",
    )
    # The state that was shown: somebody else's change meanwhile is not undone without a word.
    seen_revision = forms.IntegerField(widget=forms.HiddenInput, required=False)

    class Meta:
        model = HookPolicy
        fields: ClassVar = [
            "name",
            "description",
            "order",
            "mode",
            "is_required",
            "point",
            "condition",
            "actions",
            "deadline_s",
            "on_failure",
            "window",
            "held_chars",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = self.instance
        if row.pk is not None:
            directory = scope_directory()
            self.initial |= {
                "teams": people_shown(row.team_ids, directory.teams(set(row.team_ids))),
                "users": people_shown(row.user_ids, directory.users(set(row.user_ids))),
                "keys": people_shown(row.key_ids, directory.keys(set(row.key_ids))),
                "models": "\n".join(row.model_ids),
                "seen_revision": row.revision,
            }

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        before = None if self.instance.pk is None else HookPolicy.objects.get(pk=self.instance.pk)
        if before is not None and cleaned.get("seen_revision") not in (None, before.revision):
            self.add_error(
                None, "Somebody else changed this policy meanwhile. Read it again, and then change it."
            )
            return cleaned
        try:
            policy_check(policy=self.policy(), description=cleaned["description"], before=before)
        except HookRefusal as refusal:
            self._add_refusal(refusal)
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        """Columns of which the services say more than that a constraint is broken."""
        own = {"actions", "window", "deadline_s", "order", "held_chars"}
        excluded: set[str] = super()._get_validation_exclusions()
        return excluded | own

    def policy(self) -> Policy:
        """What the form says. Raises InvalidField."""
        given = self.cleaned_data
        point = HookPoint(given["point"])
        return Policy(
            policy_id=self.instance.pk or 0,
            name=given["name"],
            point=point,
            actions=actions_read(given["actions"], point=point),
            condition=given["condition"].replace("\r\n", "\n"),
            order=given["order"],
            mode=PolicyMode(given["mode"]),
            is_required=given["is_required"],
            scope=PolicyScope(
                team_ids=given["teams"],
                user_ids=given["users"],
                key_ids=given["keys"],
                models=frozenset(given["models"]),
            ),
            deadline_s=given["deadline_s"],
            on_failure=FailureRule(given["on_failure"]),
            window=window_read({} if given["window"] is None else given["window"]),
            held_chars=given["held_chars"],
        )

    def _add_refusal(self, refusal: HookRefusal) -> None:
        path = refusal.field or ""
        field = _FIELDS.get(path, path.partition(".")[0].partition("[")[0])
        text = f"{refusal.problem[:1].upper()}{refusal.problem[1:]}."
        if field not in self.fields:
            self.add_error(None, refusal.message)
        else:
            self.add_error(field, text if path in (field, *_FIELDS) else f"{path}: {refusal.problem}.")
