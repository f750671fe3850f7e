"""What one rendering of a template may cost: processor time, and the sizes of what it makes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable

from jinja2.exceptions import SecurityError

MAX_RENDER_CPU_S = 2.0
# All strings and lists that one rendering makes, in multiples of the largest that it may make.
_MAX_TOTAL_FACTOR = 32


class RenderBudgetExceeded(SecurityError):
    """The template took more time or made more text than any conversation needs."""


class TooMuchText(RenderBudgetExceeded):
    """It made more text than fits; with a decent template, because it was given so much."""

    def __init__(self) -> None:
        super().__init__("it makes too much text")


class _Spent(threading.local):
    """The rendering that this thread is in. The defaults hold while a template is compiled."""

    until_s = math.inf
    num_chars = 0


class RenderBudget:
    """Shared by all threads that render one template; each of them has its own account.

    Time is the thread's processor time, so that a busy machine does not fail a harmless template.
    """

    def __init__(self, *, max_chars: int, max_cpu_s: float = MAX_RENDER_CPU_S) -> None:
        """`max_chars` bounds every string and list that a template makes."""
        self.max_chars = max_chars
        self._max_cpu_s = max_cpu_s
        self._spent = _Spent()

    def start(self) -> None:
        """Begin a rendering on this thread: its account is whole again."""
        self._spent.until_s = time.thread_time() + self._max_cpu_s
        self._spent.num_chars = 0

    def check_time(self) -> None:
        if time.thread_time() > self._spent.until_s:
            raise RenderBudgetExceeded("it takes too long")

    def charge(self, num_chars: int) -> None:
        """So much more was made, in however many pieces."""
        self._spent.num_chars += num_chars
        if self._spent.num_chars > _MAX_TOTAL_FACTOR * self.max_chars:
            raise TooMuchText()

    def check_size(self, num_chars: int) -> None:
        """One value of this size is about to be made."""
        if num_chars > self.max_chars:
            raise TooMuchText()
        self.charge(num_chars)

    def check_unfolded(self, value: object) -> None:
        """A list may hold one list a thousand times, and so on down: count it as it would print."""
        waiting = [value]
        num_chars = 0
        while waiting:
            item = waiting.pop()
            num_chars += len(item) if isinstance(item, str) else 4
            if isinstance(item, dict):
                waiting.extend(item.keys())
                waiting.extend(item.values())
            elif isinstance(item, list | tuple):
                waiting.extend(item)
            if max(num_chars, len(waiting)) > self.max_chars:
                raise TooMuchText()
        self.charge(num_chars)

    def text_of(self, value: object) -> str:
        """`str(value)`, after a look at how large that would be."""
        if isinstance(value, list | tuple | dict):
            self.check_unfolded(value)
        text = str(value)
        self.check_size(len(text))
        return text

    def join(self, separator: str, values: Iterable[object]) -> str:
        """`separator.join(values)`, of anything that can be iterated and printed."""
        texts: list[str] = []
        num_chars = 0
        for value in values:
            text = self.text_of(value)
            texts.append(text)
            num_chars += len(text) + len(separator)
            if num_chars > self.max_chars:
                break
        self.check_size(num_chars)
        return separator.join(texts)

    def check_replacement(self, text: str, old: object, new: object) -> None:
        if isinstance(old, str) and isinstance(new, str):
            self.check_size(len(text) + text.count(old) * len(new))
