"""The arguments of a call in a history as a JSON object, whatever text they are.

A history holds what models wrote, also where they were cut off or wrote no JSON; and it holds JSON
that Python reads and nobody can write again (halves of surrogate pairs, infinite numbers, lists nested a
thousand deep). A template that wants an object still gets one.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

_MAX_NESTING = 64
RAW = "_raw"


def parse_arguments(text: str) -> Any:
    """The JSON value of `text`: no arguments for nothing, `{"_raw": text}` for what is no JSON."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {RAW: text}
    return value if _is_shallow(value) else {RAW: text}


def arguments_object(text: str) -> dict[str, Any]:
    """As `parse_arguments`, for who takes objects alone: `{"_raw": text}` for all that is none."""
    value = parse_arguments(text)
    return value if isinstance(value, dict) else {RAW: text}


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_NESTING):
        level = [
            below
            for item in level
            if isinstance(item, dict | list)
            for below in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return True
    return False
