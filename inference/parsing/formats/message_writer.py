"""Where a format's reader puts what it has read: content, thinking, calls.

Everything that is the same for all formats is decided here: which calls count, what their ids are, which
space around markup belongs to nobody, and what becomes of thinking that nobody asked to be told apart.
"""

from __future__ import annotations

from collections.abc import Callable

from inference.domain.message_deltas import (
    ContentDelta,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.tools import ToolUse

NewCallId = Callable[[], str]
MAX_ID_CHARS = 128


class _Trimmer:
    """Keeps space back until it is known whether something comes behind it."""

    __slots__ = ("_spaces", "is_skipping")

    def __init__(self) -> None:
        self._spaces: list[str] = []
        self.is_skipping = False
        """Space is dropped until something else comes."""

    def push(self, text: str) -> str:
        if self.is_skipping:
            text = text.lstrip()
            if not text:
                return ""
            self.is_skipping = False
        kept = text.rstrip()
        if not kept:
            if text:
                self._spaces.append(text)
            return ""
        space = self.take()
        if len(kept) < len(text):
            self._spaces.append(text[len(kept) :])
        return space + kept if space else kept

    def take(self) -> str:
        """The space that waits."""
        if not self._spaces:
            return ""
        spaces = "".join(self._spaces)
        self._spaces.clear()
        return spaces


class MessageWriter:
    """Of one answer. `take` gives the deltas since the last one, text that belongs together joined.

    A call that may not be made (a name that was not offered, a second one where one was asked for) is
    read like others, and nothing of it is told.
    """

    def __init__(
        self,
        tools: ToolUse,
        reasoning: ReasoningOptions,
        new_call_id: NewCallId,
        *,
        trims_content: bool = False,
    ) -> None:
        """`trims_content`: space at both ends of the content is not a part of it."""
        self.tools = tools
        self._names = frozenset(tool.name for tool in tools.callable_tools)
        self._new_call_id = new_call_id
        self._is_parsed = reasoning.is_parsed
        self._is_inline = not reasoning.is_parsed or reasoning.format is ReasoningFormat.DEEPSEEK_LEGACY
        self._deltas: list[MessageDelta] = []
        self._text: list[str] = []
        self._is_text_reasoning = False
        self._content = _Trimmer()
        self._trims_content = self._content.is_skipping = trims_content
        self._reasoning = _Trimmer()
        self._ids: set[str] = set()
        self._has_content = False
        self._num_calls = 0
        self._is_told = False
        self._is_call_open = False
        self.is_thinking = False

    @property
    def is_complete(self) -> bool:
        return self._num_calls > 0 and not self._is_call_open and not self.tools.is_parallel

    @property
    def has_called(self) -> bool:
        return self._num_calls > 0 and not self._is_call_open

    def take(self) -> list[MessageDelta]:
        self._flush()
        deltas, self._deltas = self._deltas, []
        return deltas

    def finish(self) -> None:
        """The text has ended. Space at the end of what was said is a part of it, but not behind calls."""
        if not self._num_calls and not self._trims_content:
            self._say(self._content.take(), is_reasoning=False)

    # -- content and thinking ---------------------------------------------------------------------

    def content(self, text: str) -> None:
        text = self._content.push(text)
        if text:
            self._has_content = True
            self._say(text, is_reasoning=False)

    def begin_thinking(self, marker: str, *, is_written: bool = True) -> None:
        """`is_written`: the model wrote the marker, the prompt did otherwise."""
        self.is_thinking = True
        self._reasoning.is_skipping = True
        if self._is_inline and (is_written or self._is_parsed):
            self.content(marker)

    def reasoning(self, text: str) -> None:
        if self._is_parsed:
            self._say(self._reasoning.push(text), is_reasoning=True)
        if self._is_inline:
            self.content(text)

    def end_thinking(self, marker: str = "") -> None:
        self.is_thinking = False
        self._reasoning.take()
        if self._is_inline:
            self.content(marker)
        else:
            self._content.is_skipping = True

    def _say(self, text: str, *, is_reasoning: bool) -> None:
        if not text:
            return
        if is_reasoning is not self._is_text_reasoning:
            self._flush()
            self._is_text_reasoning = is_reasoning
        self._text.append(text)

    def _flush(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            self._deltas.append(ReasoningDelta(text) if self._is_text_reasoning else ContentDelta(text))

    # -- calls ------------------------------------------------------------------------------------

    def may_call(self, name: str) -> bool:
        return name in self._names

    def begin_call(self, name: str, call_id: str = "") -> None:
        """`call_id` is the model's own; it is kept where it is one and new."""
        self._is_told = self.may_call(name) and (self.tools.is_parallel or not self._num_calls)
        if not self._has_content:
            self._content.take()
        if not self._is_told:
            return
        self._flush()
        call_id = call_id.strip()
        is_usable = call_id.isascii() and call_id.isprintable() and 0 < len(call_id) <= MAX_ID_CHARS
        if not is_usable or call_id in self._ids:
            call_id = self._new_call_id()
        self._ids.add(call_id)
        self._is_call_open = True
        self._deltas.append(ToolCallBegin(self._num_calls, call_id, name))
        self._num_calls += 1

    def arguments(self, text: str) -> None:
        """More of the JSON text of the open call's arguments."""
        if self._is_told and text:
            index = self._num_calls - 1
            last = self._deltas[-1] if self._deltas else None
            if isinstance(last, ToolCallArguments) and last.index == index and len(last.text) < 4096:
                self._deltas[-1] = ToolCallArguments(index, last.text + text)
            else:
                self._deltas.append(ToolCallArguments(index, text))

    def end_call(self) -> None:
        """The open call is complete."""
        if self._is_told:
            self._deltas.append(ToolCallEnd(self._num_calls - 1))
        self._is_told = self._is_call_open = False
        self._content.is_skipping = True
