"""Typed reading of one JSON object, so that every refusal names the field at fault.

JSON has one kind of number and Python has several words for true: a reader that says
`isinstance(x, int)` takes `true` for 1. And a range check written as two refusals lets NaN
through. Here each kind of value is read in one place, strictly.
"""

from __future__ import annotations

from collections.abc import Collection

from inference.domain.errors import InvalidRequest


def kind_of(value: object) -> str:
    """JSON's word for a value, for messages."""
    for kinds, word in _WORDS:
        if isinstance(value, kinds):
            return word
    return "null"


_WORDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)


class Fields:
    """The members of one object. Reading a field marks it as known; null counts as absent.

    `path` is put before a field's name in `param`: "stream_options." or "messages[3].".
    """

    def __init__(self, values: dict[str, object], path: str = "") -> None:
        self._values = values
        self._path = path
        self._known: set[str] = set()

    def param(self, name: str) -> str:
        return self._path + name

    def take(self, name: str) -> object:
        """The value as it is; None where it is null or absent."""
        self._known.add(name)
        return self._values.get(name)

    def names(self) -> list[str]:
        """All names that are there, as the caller ordered them."""
        return list(self._values)

    def unknown(self) -> list[str]:
        """Names that nobody has read."""
        return [name for name in self._values if name not in self._known]

    def fail(self, name: str, problem: str) -> InvalidRequest:
        """The refusal of this field, to be raised: "Invalid 'top_p': " and `problem`."""
        param = self.param(name)
        return InvalidRequest(f"Invalid '{param}': {problem}.", param=param)

    def wrong_kind(self, name: str, expected: str, value: object) -> InvalidRequest:
        return self.fail(name, f"expected {expected}, but got {kind_of(value)}")

    def missing(self, name: str) -> InvalidRequest:
        param = self.param(name)
        return InvalidRequest(f"Missing required parameter: '{param}'.", param=param)

    def number(self, name: str, low: float, high: float) -> float | None:
        """A finite number in [low, high]."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong_kind(name, "a number", value)
        if not low <= value <= high:
            raise self.fail(name, f"it must be between {low:g} and {high:g}")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """A whole number in [low, high], written as one: 5.0 is refused."""
        value = self.take(name)
        if value is None:
            return None
        if type(value) is not int:
            raise self.wrong_kind(name, "an integer", value)
        if not low <= value <= high:
            raise self.fail(name, f"it must be between {low} and {high}")
        return value

    def boolean(self, name: str) -> bool | None:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong_kind(name, "a boolean", value)
        return value

    def string(self, name: str, *, max_chars: int | None = None, is_label: bool = False) -> str | None:
        """A string. A label (a name, a tag) ends in records and headers: no NUL in it."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.wrong_kind(name, "a string", value)
        if max_chars is not None and len(value) > max_chars:
            raise self.fail(name, f"it must be at most {max_chars} characters long")
        if is_label and "\0" in value:
            raise self.fail(name, "it must not contain NUL characters")
        return value

    def choice(self, name: str, options: Collection[str]) -> str | None:
        value = self.string(name)
        if value is not None and value not in options:
            raise self.fail(name, "it must be one of " + ", ".join(f"'{option}'" for option in options))
        return value

    def array(self, name: str) -> list[object] | None:
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong_kind(name, "an array", value)
        return value

    def mapping(self, name: str) -> dict[str, object] | None:
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong_kind(name, "an object", value)
        return value
