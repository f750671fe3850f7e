"""One moment as values for CEL, made once for all conditions that are asked in it, and only what they read.

What a client can make large is bounded: a text of more than MAX_TEXT_BYTES (UTF-8) or a list of more than
MAX_ITEMS is not handed over, and a condition that reads it fails, so that its policy's failure rule applies.
"""

from __future__ import annotations

import logging
from typing import Any

from hooks.conditions.compiling import Condition, Needs, environment
from hooks.conditions.moment import Moment
from hooks.conditions.request_texts import MAX_FOLDED_BYTES, MAX_TEXT_BYTES, TextTooLarge
from hooks.conditions.variables import variables_at
from hooks.conditions.word_search import ANSWERS, Search

logger = logging.getLogger(__name__)

MAX_ITEMS = 1024
MAX_ITEM_BYTES = 64 << 10
# Of a text that is asked again and again, in a comprehension.
MAX_LOOP_TEXT_CHARS = 128 << 10
TOO_LARGE = "the input is too large"
HAS_ERROR = "the condition has an error"


class ConditionFailed(Exception):
    """It is neither true nor false. `reason` holds nothing that anybody wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Context:
    """Made for one firing: `needs` are those of all its conditions."""

    __slots__ = ("_activation", "_faults", "_moment", "_needs", "_values")

    def __init__(self, moment: Moment, needs: Needs) -> None:
        self._moment = moment
        self._needs = needs
        self._values: dict[str, Any] | None = None
        self._activation: Any = None
        # What has no value, and why.
        self._faults: dict[str | Search, str] = {}

    def prepare(self) -> None:
        """Makes the values now, on whatever thread this is: for large texts it takes some milliseconds."""
        if self._values is None:
            self._values = self._read()

    def holds(self, condition: Condition) -> bool:
        """Raises ConditionFailed."""
        if self._activation is None:
            self.prepare()
            self._activation = environment(self._moment.point).Activation(self._values)
        if self._faults:
            for need in (*condition.needs.variables, *condition.needs.searches):
                if need in self._faults:
                    raise ConditionFailed(self._faults[need])
        assert self._values is not None
        if any(len(self._values[name]) > MAX_LOOP_TEXT_CHARS for name in condition.loop_texts):
            # While the binding is at it, nobody else runs.
            raise ConditionFailed(TOO_LARGE)
        try:
            value = condition.expression.eval(self._activation).value()
        except RuntimeError as error:
            is_endless = "budget" in str(error)
            reason = "the evaluation took too long" if is_endless else HAS_ERROR
            raise ConditionFailed(reason) from None
        if value is True or value is False:
            return bool(value)
        raise ConditionFailed(HAS_ERROR)

    def _read(self) -> dict[str, Any]:
        moment = self._moment
        known = variables_at(moment.point)
        values: dict[str, Any] = {}
        for name in self._needs.variables:
            try:
                max_bytes = MAX_FOLDED_BYTES if ".folded" in name else MAX_TEXT_BYTES
                values[name] = _bounded(known[name].value(moment), max_bytes)
            except Exception as error:
                self._faults[name] = _fault(error)
        answers: dict[str, bool] = {}
        for search in self._needs.searches:
            try:
                answers[search.key] = search.answer(moment)
            except Exception as error:
                self._faults[search] = _fault(error)
        if answers:
            values[ANSWERS] = answers
        return values


def _fault(error: Exception) -> str:
    if isinstance(error, TextTooLarge):
        return TOO_LARGE
    # Its message may hold what somebody wrote.
    logger.error("What a condition reads could not be made: %s", type(error).__name__)
    return "the input cannot be read"


def _bounded(value: Any, max_bytes: int) -> Any:
    if isinstance(value, str):
        return _text(value, max_bytes)
    if isinstance(value, list):
        if len(value) > MAX_ITEMS:
            raise TextTooLarge
        return [_item(item) for item in value]
    if isinstance(value, dict):
        if len(value) > MAX_ITEMS:
            raise TextTooLarge
        return {_item(name): _item(item) for name, item in value.items()}
    return value


def _item(value: Any) -> Any:
    return _text(value, MAX_ITEM_BYTES) if isinstance(value, str) else value


def _text(value: str, max_bytes: int) -> str:
    """As the binding can take it: it knows no half of a surrogate pair, and a text ends for it at a NUL, so
    that whatever stands behind one would be hidden."""
    if len(value) > max_bytes:
        raise TextTooLarge
    if not value.isascii():
        data = value.encode("utf-8", "replace")
        if len(data) > max_bytes:
            raise TextTooLarge
        value = data.decode("utf-8")
    return value.replace("\x00", "\ufffd") if "\x00" in value else value
