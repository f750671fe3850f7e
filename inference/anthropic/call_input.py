"""The `input` of a call: an object on this wire, though the model wrote text.

Where the text breaks off (an answer that was cut by `max_tokens`), the object holds what was complete, as
clients that read a stream of it have it; half of a value would look like a whole one.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_CLOSERS = {"{": "}", "[": "]"}


def call_input(arguments: str) -> dict[str, Any]:
    """The arguments as an object; {} where they are none. Linear in the text. NaN and its like, which are no
    JSON, become null."""
    for text in (arguments, _completed(arguments)):
        try:
            value = json.loads(text, parse_constant=lambda name: None)
        except (ValueError, RecursionError):
            continue
        return value if isinstance(value, dict) else {}
    return {}


def _completed(text: str) -> str:
    """`text` up to its last complete value, with the brackets closed that are open there."""
    open_brackets: list[str] = []
    is_key = False
    safe_end = position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        word, position = token[0], token.end()
        match word[0]:
            case "{" | "[":
                open_brackets.append(word)
                is_key = word == "{"
            case "}" | "]":
                if not open_brackets:
                    break
                open_brackets.pop()
                is_key = False
            case ",":
                is_key = bool(open_brackets) and open_brackets[-1] == "{"
                continue
            case ":":
                is_key = False
                continue
            case " " | "\n" | "\t" | "\r":
                continue
            case '"':
                if is_key:
                    continue
            case _:
                if position == len(text):
                    break  # a number may go on
        safe_end = position  # each bracket moves it, so those that are open here were open there
    return text[:safe_end] + "".join(_CLOSERS[one] for one in reversed(open_brackets))
