"""Jinja's filters that can make a large value of small ones, with bounds; and Hugging Face's `tojson`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import Environment, Undefined
from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent

from inference.prompting.render_budget import RenderBudget

MAX_INDENT = 64
# Each of these can make a large value of a small one, or has no use in a chat template.
LEFT_OUT = (
    "batch", "center", "filesizeformat", "forceescape", "format", "pprint", "random", "slice", "striptags",
    "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr",
)  # fmt: skip


class BoundedFilters:
    """Filters of one environment. Their parameters are named as Jinja's, for `join(attribute=…)`."""

    def __init__(self, environment: Environment, budget: RenderBudget) -> None:
        self._environment = environment
        self._budget = budget

    def replacements(self) -> dict[str, Callable[..., Any]]:
        """Name to filter, to be put over Jinja's own."""
        return {
            "indent": self.indent,
            "join": self.join,
            "list": self.list_,
            "replace": self.replace,
            "round": self.round_,
            "string": self._budget.text_of,
            "sum": self.sum_,
            "tojson": self.tojson,
        }

    def join(self, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        if attribute is not None:
            value = [self._environment.getitem(item, attribute) for item in value]
        return self._budget.join(str(d), value)

    def replace(self, s: object, old: object, new: object, count: int | None = None) -> str:
        text, old_text, new_text = self._budget.text_of(s), str(old), str(new)
        self._budget.check_replacement(text, old_text, new_text)
        return text.replace(old_text, new_text, -1 if count is None else count)

    def indent(self, s: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        text = self._budget.text_of(s)
        size = width if isinstance(width, int) else len(width)
        _check_indent(size)
        self._budget.check_size(len(text) + size * (text.count("\n") + 1))
        return do_indent(text, width, first, blank)

    def list_(self, value: Iterable[Any]) -> list[Any]:
        items = list(value)
        self._budget.check_size(len(items))
        return items

    def round_(self, value: float, precision: int = 0, method: str = "common") -> float:
        precision = max(-20, min(20, precision))
        if method == "common":
            return float(round(value, precision))
        factor = 10.0**precision
        return (math.ceil if method == "ceil" else math.floor)(value * factor) / factor

    def sum_(self, iterable: Iterable[Any], attribute: str | int | None = None, start: float = 0) -> float:
        """Of numbers: Jinja's would add lists, too."""
        total = start
        for item in iterable:
            number = item if attribute is None else self._environment.getitem(item, attribute)
            if not isinstance(number, int | float):
                raise TypeError("only numbers can be summed up")
            total += number
        return total

    def tojson(
        self,
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """Unlike Jinja's own, it escapes nothing for HTML."""
        _check_indent(indent or 0)
        if isinstance(value, Undefined):
            raise TypeError("an undefined value has no JSON")
        if isinstance(value, Iterator):  # `tools | map(attribute='function') | tojson`
            value = self.list_(value)
        self._budget.check_unfolded(value)
        text = json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        self._budget.check_size(len(text))
        return text


def _check_indent(size: int) -> None:
    if size > MAX_INDENT:
        raise SecurityError("an indentation as wide as this is not allowed")
