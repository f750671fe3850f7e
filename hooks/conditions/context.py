"""One moment as values for CEL, made once for all conditions that are asked in it, and only what they read.

What a client can make large is bounded: a text of more than MAX_TEXT_BYTES (UTF-8) or a list of more than
MAX_ITEMS is not handed over, and a condition that reads it fails, so that its policy's failure rule applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hooks.conditions.compiling import Condition, environment
from hooks.conditions.moment import Moment
from hooks.conditions.variables import variables_at

MAX_TEXT_BYTES = 1 << 20
MAX_ITEMS = 1024
MAX_ITEM_BYTES = 64 << 10


class ConditionFailed(Exception):
    """It is neither true nor false. `reason` holds nothing that anybody wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Context:
    """Made for one firing: `names` are all that its conditions may read."""

    __slots__ = ("_activation", "_moment", "_names", "_too_large")

    def __init__(self, moment: Moment, names: Iterable[str]) -> None:
        self._moment = moment
        self._names = names
        self._activation: Any = None
        self._too_large: set[str] = set()

    def holds(self, condition: Condition) -> bool:
        """Raises ConditionFailed."""
        if self._activation is None:
            self._activation = self._activated()
        if not self._too_large.isdisjoint(condition.variables):
            raise ConditionFailed("the input is too large")
        try:
            value = condition.expression.eval(self._activation).value()
        except RuntimeError:
            raise ConditionFailed("the evaluation took too long") from None
        if value is True or value is False:
            return bool(value)
        raise ConditionFailed("the condition has an error")

    def _activated(self) -> Any:
        known = variables_at(self._moment.point)
        values: dict[str, Any] = {}
        for name in self._names:
            try:
                values[name] = _bounded(known[name].value(self._moment))
            except _TooLarge:
                self._too_large.add(name)
        return environment(self._moment.point).Activation(values)


class _TooLarge(Exception):
    pass


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value, MAX_TEXT_BYTES)
    if isinstance(value, list):
        if len(value) > MAX_ITEMS:
            raise _TooLarge
        return [_item(item) for item in value]
    if isinstance(value, dict):
        if len(value) > MAX_ITEMS:
            raise _TooLarge
        return {_item(name): _item(item) for name, item in value.items()}
    return value


def _item(value: Any) -> Any:
    return _text(value, MAX_ITEM_BYTES) if isinstance(value, str) else value


def _text(value: str, max_bytes: int) -> str:
    """As the binding can take it: it knows no half of a surrogate pair, and a text ends for it at a NUL, so
    that whatever stands behind one would be hidden."""
    if len(value) > max_bytes:
        raise _TooLarge
    if not value.isascii():
        data = value.encode("utf-8", "replace")
        if len(data) > max_bytes:
            raise _TooLarge
        value = data.decode("utf-8")
    return value.replace("\x00", "\ufffd") if "\x00" in value else value
