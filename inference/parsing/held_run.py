"""Text of one kind, without an interruption, that waits to be released."""

from __future__ import annotations

from collections.abc import Sequence

from hooks.contracts.actions import TextTarget
from inference.parsing.argument_text import ReadCharacter

TextKey = tuple[TextTarget, int | None]
"""Which text of an answer: its content, its thinking, or the arguments of the call of this index."""


class HeldRun:
    """`text` is what is read. Arguments know of each of its characters how it was written, too; all else is
    written as it is read."""

    __slots__ = ("_characters", "_parts", "key")

    def __init__(self, key: TextKey) -> None:
        self.key = key
        self._parts: list[str] = []
        self._characters: list[ReadCharacter] = []

    def add(self, text: str) -> None:
        self._parts.append(text)

    def add_read(self, characters: Sequence[ReadCharacter]) -> None:
        """Of arguments."""
        self._characters += characters
        self._parts.append("".join([one.text for one in characters]))

    @property
    def text(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def last(self) -> str:
        """Its last character."""
        return self._parts[-1][-1:] if self._parts else ""

    @property
    def characters(self) -> list[ReadCharacter]:
        """Of arguments."""
        return self._characters

    def written(self, start: int, end: int) -> str:
        if self._characters:
            return "".join([one.written for one in self._characters[start:end]])
        return self.text[start:end]

    def move(self, start: int, end: int, into: HeldRun) -> None:
        """Add this stretch to another run."""
        if self._characters:
            into.add_read(self._characters[start:end])
        else:
            into.add(self.text[start:end])

    def __len__(self) -> int:
        return len(self.text)
