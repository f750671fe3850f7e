"""Bytes of a request body to one JSON object, or a 400.

Python's own parser takes more than JSON: NaN and Infinity, numbers that overflow to infinity, lone
surrogates (which no later `.encode()` survives: the tokenizer, the database, the answer), several
encodings, and of a repeated key silently the last. Each of those once killed a server or let a
proxy and a server read two different requests. All of them end here.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

from inference.domain.errors import InvalidRequest

# Far more than any schema in a `tools` list needs, far less than what makes recursion a danger.
MAX_NESTING = 128


class _Refused(ValueError):
    """Raised inside the parser's hooks; its text is for the caller."""


def parse_object(body: bytes) -> dict[str, object]:
    """The JSON object in `body` (UTF-8, no BOM). Raises InvalidRequest for everything else.

    Strings in the result hold no lone surrogates, numbers are finite, keys are unique, and nothing
    is nested deeper than MAX_NESTING. The messages quote nothing of the body.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid("it is not valid UTF-8") from None
    try:
        value = _DECODER.decode(text)
    except _Refused as refusal:
        raise _invalid(str(refusal)) from None
    except json.JSONDecodeError as error:
        raise _invalid(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _invalid(_TOO_DEEP) from None
    except ValueError:  # an integer of more digits than Python converts
        raise _invalid("it holds a number that is too large") from None
    if type(value) is not dict:
        raise InvalidRequest("The request body must be a JSON object.")
    # A string can only hold a surrogate where the text spells one out as an escape, and nesting
    # needs brackets: most bodies are known to be harmless without a walk.
    if "\\ud" in text or "\\uD" in text or text.count("[") + text.count("{") > MAX_NESTING:
        _check_values(value)
    return value


_TOO_DEEP = f"it is nested more than {MAX_NESTING} levels deep"


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(f"The request body could not be read as JSON: {reason}.")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Refused("an object in it repeats a key")
    return result


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused("it holds a number that is too large")
    return value


def _constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)


def _check_values(value: object) -> None:
    """Look at every string and every level, without recursion."""
    level: list[object] = [value]
    for _ in range(MAX_NESTING):
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not below:
            return
        level = below
    if any(isinstance(item, dict | list) for item in level):
        raise _invalid(_TOO_DEEP)
    for item in level:
        if isinstance(item, str):
            _check_text(item)


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _invalid("a string in it holds half of a surrogate pair") from None
