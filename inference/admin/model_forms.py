"""What an administrator fills in about models. What services would refuse is refused here, at its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from inference.domain.adapters import AdapterSettings
from inference.domain.errors import SkippyError
from inference.domain.model_settings import LoadPolicy, ModelAccess, ModelSettings
from inference.domain.speculation import SpeculationMode, SpeculationSettings
from inference.model_rows.columns import WRITTEN_COLUMNS, settings_of
from inference.model_rows.services import model_check, model_row_get
from inference.model_rows.validation import check_adapters
from inference.models import ModelRow

# The columns of what a refusal calls by another name.
_COLUMNS = {
    "speculation.mode": "speculation_mode",
    "speculation.max_draft_tokens": "max_draft_tokens",
    "speculation.draft_source": "draft_source",
    "access.team_ids": "teams",
    "access.key_ids": "keys",
}


class ModelRowForm(forms.ModelForm):
    """A model; its adapters are in a formset of their own."""

    class Meta:
        model = ModelRow
        fields: ClassVar = [*WRITTEN_COLUMNS, "teams", "keys"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        try:
            model_check(settings=self.settings(()), row_id=self.instance.pk)
        except SkippyError as problem:
            column = self._column(problem.param)
            text = problem.message.partition("': ")[2] or problem.message
            detail = problem.param if column and "." in (problem.param or "") else None
            self.add_error(column, f"{detail}: {text}" if detail else text)
        return cleaned

    def _get_validation_exclusions(self) -> set[str]:
        """Columns whose constraints are the services' affair: a new default takes the place of the old one,
        and of settings they say more than that they are no object."""
        own = {"is_default", "engine", "admission", "chat_defaults", "completion_defaults"}
        excluded: set[str] = super()._get_validation_exclusions()
        return excluded | own

    def settings(self, adapters: tuple[AdapterSettings, ...]) -> ModelSettings:
        """What the form says, over what the row says of all that is not in it."""
        given = self.cleaned_data
        blank = ModelSettings(row_id=0, revision=0, id=given["model_id"], source=given["source"])
        before = blank if self.instance.pk is None else settings_of(model_row_get(row_id=self.instance.pk))
        return replace(
            before,
            id=given["model_id"],
            aliases=tuple(given["aliases"] or ()),
            source=given["source"],
            projector_source=given["projector_source"],
            is_default=given["is_default"],
            load_policy=LoadPolicy(given["load_policy"]),
            idle_unload_s=given["idle_unload_s"],
            engine=_object(given["engine"]),
            admission=_object(given["admission"]),
            chat_defaults=_object(given["chat_defaults"]),
            completion_defaults=_object(given["completion_defaults"]),
            has_embeddings=given["has_embeddings"],
            speculation=SpeculationSettings(
                mode=SpeculationMode(given["speculation_mode"]),
                max_draft_tokens=given["max_draft_tokens"],
                allows_requests=given["allows_speculation_requests"],
                draft_source=given["draft_source"],
            ),
            adapters=adapters,
            access=ModelAccess(
                is_open=given["is_open"],
                team_ids=frozenset(team.pk for team in given["teams"]),
                key_ids=frozenset(key.pk for key in given["keys"]),
            ),
        )

    def _column(self, param: str | None) -> str | None:
        """The form's field at fault; None where it is none of them."""
        name = _COLUMNS.get(param or "", (param or "").partition(".")[0])
        return name if name in self.fields else None


def _object(given: Any) -> Any:
    """An empty field is no setting."""
    return {} if given is None else given


class ModelAdapterFormSet(forms.BaseInlineFormSet):
    """The adapters of one model, together."""

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        try:
            check_adapters(self.adapters())
        except SkippyError as problem:
            raise ValidationError(problem.message) from None

    def adapters(self) -> tuple[AdapterSettings, ...]:
        """Those that are to be there."""
        kept = [form.cleaned_data for form in self.forms if form not in self.deleted_forms]
        return tuple(
            AdapterSettings(
                name=one["name"], source=one["source"], scale=one["scale"], is_default=one["is_default"]
            )
            for one in kept
            if one.get("name")
        )
