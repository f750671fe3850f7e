"""Answers that nobody generates, as policies see them: typed in for a trial, or kept from before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hooks.contracts.decisions import OutputVerdict
from hooks.contracts.view import OutputText
from inference.domain.message_deltas import (
    ContentDelta,
    MessageBuilder,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.parsing.output_window import OutputWindow

Call = tuple[str, str]
"""The function's name, and its arguments as the model wrote them."""


def output_text(content: str, calls: Sequence[Call] = (), reasoning: str = "") -> OutputText:
    """A whole answer as policies at its end see it."""
    window = OutputWindow(held_chars=None)
    window.push(answer_deltas(content, calls, reasoning))
    window.close()
    return window.view(0)


class SaidWindow:
    """Implements hooks.services.trial.AnswerWindow, as inference.hooking.output_gate does it in earnest."""

    def __init__(self, window: OutputWindow, deltas: Iterable[MessageDelta], *, is_stream: bool) -> None:
        self._window = window
        self._deltas = iter(deltas)
        # Of a stream, nothing is shown where nothing is left; a whole answer is shown once in any case.
        self._is_stream = is_stream
        self._is_over = False

    def next(self) -> OutputText | None:
        if self._is_over:
            return None
        for delta in self._deltas:
            self._window.push([delta])
            if self._window.is_due:
                return self._window.view(0)
        self._is_over = True
        self._window.close()
        return None if self._is_stream and self._window.is_empty else self._window.view(0)

    def release(self, verdict: OutputVerdict) -> OutputText:
        released = self._window.settle(verdict)
        self._is_over = self._is_over or verdict.stop is not None
        return _text_of(released.deltas)


def answer_deltas(
    content: str, calls: Sequence[Call], reasoning: str, *, chunk_chars: int = 1 << 30
) -> Iterator[MessageDelta]:
    """Thinking, then content, then calls, in pieces of so many characters."""
    for text in _pieces(reasoning, chunk_chars):
        yield ReasoningDelta(text)
    for text in _pieces(content, chunk_chars):
        yield ContentDelta(text)
    for index, (name, arguments) in enumerate(calls):
        yield ToolCallBegin(index, f"call_{index}", name)
        for text in _pieces(arguments, chunk_chars):
            yield ToolCallArguments(index, text)
        yield ToolCallEnd(index)


def _pieces(text: str, num_chars: int) -> Iterator[str]:
    for start in range(0, len(text), num_chars):
        yield text[start : start + num_chars]


def _text_of(deltas: Sequence[MessageDelta]) -> OutputText:
    """What went out, for people: arguments by their call, whichever of it had gone out before."""
    arguments: dict[int, str] = {}
    names: dict[int, str] = {}
    plain: list[MessageDelta] = []
    for delta in deltas:
        if isinstance(delta, ToolCallBegin):
            names[delta.index] = delta.name
        elif isinstance(delta, ToolCallArguments):
            arguments[delta.index] = arguments.get(delta.index, "") + delta.text
        elif not isinstance(delta, ToolCallEnd):
            plain.append(delta)
    message = MessageBuilder(plain).message()
    return OutputText(
        choice=0,
        content=message.content or "",
        reasoning=message.reasoning or "",
        arguments=arguments,
        tool_names=names,
    )
