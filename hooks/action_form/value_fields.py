"""One value of an action as JSON has it: what it may be, and how its schema says so.

A reader is given what `json.loads` made, and the path under which the value stands; it gives what the
action holds, or raises InvalidField.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import re2

from hooks.contracts.refusals import InvalidField
from hooks.matching.patterns import pattern_compiled

MAX_TEXT_CHARS = 20_000
MAX_PATTERN_CHARS = 1000
MAX_PATTERN_BYTES = 1 << 20
MAX_ID = 2**63 - 1
# Above it, JSON's readers do not agree any more which whole number is meant.
MAX_WHOLE = 2**53

# Postgres keeps no NUL, and half a surrogate pair is no UTF-8.
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ValueField:
    """One field of an action's JSON form, by the name that the action itself has for it."""

    name: str
    read: Callable[[Any, str], Any]
    schema: Mapping[str, Any]
    is_required: bool = False


def text(
    name: str,
    *,
    min_chars: int = 0,
    max_chars: int = MAX_TEXT_CHARS,
    is_line: bool = False,
    is_required: bool = False,
    is_nullable: bool = False,
) -> ValueField:
    """`is_line`: of one line, without control characters."""

    def read(value: Any, path: str) -> str | None:
        if value is None and is_nullable:
            return None
        return read_text(value, path, min_chars=min_chars, max_chars=max_chars, is_line=is_line)

    schema: dict[str, Any] = {"type": "string", "minLength": min_chars, "maxLength": max_chars}
    return ValueField(name, read, _nullable(schema, is_nullable), is_required)


def word(name: str, pattern: str, what: str, *, is_required: bool = False) -> ValueField:
    """A text that is all of `pattern`, described by `what`."""
    compiled = re.compile(pattern)

    def read(value: Any, path: str) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise InvalidField(path, f"expected {what}")
        return value

    return ValueField(name, read, {"type": "string", "pattern": f"^{pattern}$"}, is_required)


def flag(name: str) -> ValueField:
    def read(value: Any, path: str) -> bool:
        if not isinstance(value, bool):
            raise InvalidField(path, "expected true or false")
        return value

    return ValueField(name, read, {"type": "boolean"})


def whole(
    name: str, *, minimum: int, maximum: int, is_required: bool = False, is_nullable: bool = False
) -> ValueField:
    def read(value: Any, path: str) -> int | None:
        if value is None and is_nullable:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise InvalidField(path, f"expected a whole number from {minimum} to {maximum}")
        return value

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return ValueField(name, read, _nullable(schema, is_nullable), is_required)


def number(name: str) -> ValueField:
    """Finite, or null."""

    def read(value: Any, path: str) -> float | None:
        return None if value is None else read_number(value, path)

    return ValueField(name, read, {"type": "number", "nullable": True})


def choice(
    name: str, enumeration: type[StrEnum], *, is_required: bool = False, is_nullable: bool = False
) -> ValueField:
    def read(value: Any, path: str) -> StrEnum | None:
        return None if value is None and is_nullable else read_choice(value, path, enumeration)

    schema = {"type": "string", "enum": [member.value for member in enumeration]}
    return ValueField(name, read, _nullable(schema, is_nullable), is_required)


def choices(name: str, enumeration: type[StrEnum], *, is_required: bool = False) -> ValueField:
    """Some of an enumeration, each once."""

    def read(value: Any, path: str) -> tuple[StrEnum, ...]:
        found = [
            read_choice(one, f"{path}[{place}]", enumeration)
            for place, one in enumerate(read_list(value, path, max_items=2 * len(enumeration)))
        ]
        return tuple(dict.fromkeys(found))

    items = {"type": "string", "enum": [member.value for member in enumeration]}
    return ValueField(name, read, {"type": "array", "items": items}, is_required)


def texts(name: str, *, max_items: int, max_chars: int) -> ValueField:
    """Words that are looked for: none of them blank."""

    def read(value: Any, path: str) -> tuple[str, ...]:
        found = [
            _read_sought(one, f"{path}[{place}]", max_chars)
            for place, one in enumerate(read_list(value, path, max_items=max_items))
        ]
        return tuple(dict.fromkeys(found))

    items = {"type": "string", "minLength": 1, "maxLength": max_chars}
    return ValueField(name, read, {"type": "array", "items": items, "maxItems": max_items})


def patterns(name: str, *, max_items: int) -> ValueField:
    """Regular expressions as RE2 has them: they cost time in proportion to the text, whatever it is."""

    def read(value: Any, path: str) -> tuple[str, ...]:
        found = [
            _read_pattern(one, f"{path}[{place}]")
            for place, one in enumerate(read_list(value, path, max_items=max_items))
        ]
        return tuple(dict.fromkeys(found))

    items = {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN_CHARS}
    return ValueField(name, read, {"type": "array", "items": items, "maxItems": max_items})


def parameter_value(name: str, *, max_chars: int) -> ValueField:
    """What a parameter of a request can be: a flag, a number, a word, or null."""

    def read(value: Any, path: str) -> bool | int | float | str | None:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return read_text(value, path, min_chars=0, max_chars=max_chars, is_line=False)
        if isinstance(value, int | float):
            return read_number(value, path)
        raise InvalidField(path, "expected true, false, a number, a text or null")

    kinds = [{"type": "boolean"}, {"type": "number"}, {"type": "string", "maxLength": max_chars}]
    return ValueField(name, read, {"nullable": True, "oneOf": kinds}, is_required=True)


# -- what they are made of -----------------------------------------------------------------------------


def read_text(value: Any, path: str, *, min_chars: int, max_chars: int, is_line: bool) -> str:
    if not isinstance(value, str):
        raise InvalidField(path, "expected a text")
    if len(value) > max_chars:
        raise InvalidField(path, f"it has at most {max_chars} characters")
    if len(value) < min_chars or (min_chars and not value.strip()):
        raise InvalidField(path, "a text is needed")
    if (_CONTROL if is_line else _UNWRITABLE).search(value):
        raise InvalidField(path, "it has characters that cannot be kept")
    return value


def read_number(value: Any, path: str) -> float:
    """Finite, and no larger than JSON's readers agree on. A whole number stays one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidField(path, "expected a number")
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > MAX_WHOLE:
        raise InvalidField(path, "expected a finite number")
    return value


def read_choice(value: Any, path: str, enumeration: type[StrEnum]) -> StrEnum:
    found = {member.value: member for member in enumeration}
    if not isinstance(value, str) or value not in found:
        raise InvalidField(path, f"expected one of {', '.join(found)}")
    return found[value]


def read_list(value: Any, path: str, *, max_items: int) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidField(path, "expected a list")
    if len(value) > max_items:
        raise InvalidField(path, f"it has at most {max_items} entries")
    return value


def _read_sought(value: Any, path: str, max_chars: int) -> str:
    return read_text(value, path, min_chars=1, max_chars=max_chars, is_line=True)


def _read_pattern(value: Any, path: str) -> str:
    pattern = read_text(value, path, min_chars=1, max_chars=MAX_PATTERN_CHARS, is_line=False)
    try:
        compiled = pattern_compiled(pattern, max_memory_bytes=MAX_PATTERN_BYTES)
    except re2.error:
        raise InvalidField(path, "expected a regular expression in RE2's syntax, of bounded size") from None
    if compiled.search("") is not None:
        raise InvalidField(path, "it must not match where there is no text")
    return pattern


def _nullable(schema: dict[str, Any], is_nullable: bool) -> dict[str, Any]:
    return {**schema, "nullable": True} if is_nullable else schema
