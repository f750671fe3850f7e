"""Fields of the forms: JSON as people write it, and lists of people with one in each line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import UnfoldAdminTextareaWidget

_NUMBERED = re.compile(r"#([0-9]{1,18})(?:\s.*)?")


class WrittenJsonField(forms.CharField):
    """JSON, shown with line breaks. What Python's reader gives up on is wrong, and no fault of ours; what was
    written is shown again as it was."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            widget=UnfoldAdminTextareaWidget(attrs={"rows": 12, "spellcheck": "false"}), **kwargs
        )

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if text in self.empty_values:
            return None
        try:
            return json.loads(text)
        except (RecursionError, ValueError):
            raise ValidationError("Enter valid JSON, not too deep and with numbers of usual size.") from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != initial)
        except ValidationError:
            return True


class LinesField(forms.CharField):
    """One thing in each line."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}), required=False, **kwargs)

    def clean(self, value: Any) -> Any:
        text: str = super().clean(value)
        return list(dict.fromkeys([line.strip() for line in text.splitlines() if line.strip()]))


class PeopleField(LinesField):
    """Names, or # and an id with anything behind it, which is how those that are there are shown."""

    def __init__(
        self, *, named: Callable[[Set[str]], Mapping[str, int]] | None = None, **kwargs: Any
    ) -> None:
        """`named` looks up names; without it there are only ids."""
        super().__init__(**kwargs)
        self._named = named

    def clean(self, value: Any) -> frozenset[int]:
        ids: set[int] = set()
        names: set[str] = set()
        for line in super().clean(value):
            numbered = _NUMBERED.fullmatch(line)
            if numbered is not None:
                ids.add(int(numbered[1]))
            else:
                names.add(line)
        found = self._named(names) if names and self._named is not None else {}
        for name in sorted(names - found.keys()):
            raise ValidationError(f"There is none with the name {name!r}.")
        return frozenset(ids | set(found.values()))


def people_shown(ids: Iterable[int], labels: Mapping[int, str]) -> str:
    """As `PeopleField` reads them."""
    return "\n".join([f"#{one} {labels.get(one, '(gone)')}" for one in ids])


def without_hidden(fieldsets: Any, may_write: bool) -> Any:
    """Who may only look is shown neither the form's own note of what was shown, nor the field that a secret
    would be written into."""
    if may_write:
        return fieldsets
    own = ("seen_revision", "secret")
    return [
        (title, {**options, "fields": [name for name in options["fields"] if name not in own]})
        for title, options in fieldsets
    ]
