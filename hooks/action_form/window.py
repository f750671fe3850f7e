"""The rule for windows as JSON: an object of what differs from the usual one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hooks.action_form.value_fields import read_number
from hooks.contracts.refusals import InvalidField
from hooks.contracts.signals import WindowRule

# Smallest and largest of each; whole numbers where both are. An entropy in nats is at most the logarithm of
# the vocabulary's size, which is below 20 for any.
BOUNDS: dict[str, tuple[float, float]] = {
    "window_tokens": (1, 1024),
    "min_decoded": (1, 1_000_000),
    "min_between": (1, 1_000_000),
    "high_entropy": (0.0, 20.0),
    "min_high_share": (0.0, 1.0),
    "min_repetitions": (1, 1024),
    "every_tokens": (0, 1_000_000),
}


def window_read(value: Any, *, path: str = "window") -> WindowRule:
    """Raises InvalidField, as "window.min_decoded"."""
    if not isinstance(value, dict):
        raise InvalidField(path, "expected an object")
    given: dict[str, Any] = {}
    for name, one in value.items():
        if name not in BOUNDS:
            known = ", ".join(BOUNDS)
            raise InvalidField(path, f"its fields are {known}")
        given[name] = _read(one, f"{path}.{name}", *BOUNDS[name])
    return WindowRule(**given)


def window_written(rule: WindowRule) -> dict[str, Any]:
    """Every field, also one that is as usual."""
    return {one.name: getattr(rule, one.name) for one in fields(rule)}


def window_schema() -> dict[str, Any]:
    """OpenAPI's schema of it."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {
                "type": "integer" if isinstance(least, int) else "number",
                "minimum": least,
                "maximum": most,
            }
            for name, (least, most) in BOUNDS.items()
        },
    }


def _read(value: Any, path: str, least: float, most: float) -> float:
    number = read_number(value, path)
    if not least <= number <= most:
        raise InvalidField(path, f"expected a number from {least} to {most}")
    if isinstance(least, int) and not isinstance(number, int):
        raise InvalidField(path, "expected a whole number")
    return number
