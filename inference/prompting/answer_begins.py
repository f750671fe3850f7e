"""Remembers how prompts of one template end, since nearly all of them end alike.

Finding it out takes two renderings more (chat_rendering.py). It depends on the template's variables and on
whose turn was last; where it depends on more, a remembered one is not the end of the new prompt,
and is found out anew.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock

MAX_REMEMBERED = 64
_MAX_KEY_CHARS = 2_000


class AnswerBegins:
    """Thread-safe; of one template."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def find(self, text: str, key: str) -> str | None:
        """The end of `text` that was remembered under `key`; None where there is none, or another."""
        with self._lock:
            begin = self._known.get(key)
        return begin if begin and text.endswith(begin) else None

    def remember(self, begin: str, key: str) -> None:
        """The latest under each key is kept."""
        if not begin or len(key) > _MAX_KEY_CHARS:
            return
        with self._lock:
            self._known[key] = begin
            self._known.move_to_end(key)
            while len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)


def begin_key(last_role: str, variables: Mapping[str, object]) -> str:
    """What the end of a prompt depends on, for most templates."""
    return f"{last_role} {json.dumps(variables, sort_keys=True, default=repr)}"
