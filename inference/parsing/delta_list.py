"""Deltas of a message, as few as they can be."""

from __future__ import annotations

from hooks.contracts.actions import TextTarget
from inference.domain.message_deltas import (
    ContentDelta,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.parsing.held_run import TextKey


class DeltaList:
    """Takes text bit by bit; what follows in the same text becomes one delta."""

    def __init__(self) -> None:
        self._deltas: list[MessageDelta] = []
        self._key: TextKey | None = None
        self._texts: list[str] = []

    def add_text(self, key: TextKey, text: str) -> None:
        if not text:
            return
        if key != self._key:
            self._end_text()
            self._key = key
        self._texts.append(text)

    def add_mark(self, mark: ToolCallBegin | ToolCallEnd) -> None:
        self._end_text()
        self._deltas.append(mark)

    def take(self) -> tuple[MessageDelta, ...]:
        self._end_text()
        deltas, self._deltas = self._deltas, []
        return tuple(deltas)

    def _end_text(self) -> None:
        if self._key is None:
            return
        target, call = self._key
        text = "".join(self._texts)
        if call is not None:
            self._deltas.append(ToolCallArguments(call, text))
        elif target is TextTarget.REASONING:
            self._deltas.append(ReasoningDelta(text))
        else:
            self._deltas.append(ContentDelta(text))
        self._key, self._texts = None, []
