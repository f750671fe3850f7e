"""What a family of models writes around its calls and its thinking, and how that is read and constrained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.domain.constraint import ConstraintSpec
from inference.domain.message_deltas import MessageDelta, MessageParser
from inference.domain.reasoning import ReasoningOptions
from inference.domain.tools import ToolUse
from inference.parsing.formats import call_ids
from inference.parsing.formats.message_writer import MessageWriter, NewCallId
from inference.parsing.formats.text_source import Markers, Steps, TextSource, markers


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a model writes around its thinking. Where it `ends_at_call`, a call ends thinking too: these
    models forget to say that they are done."""

    begin: str
    end: str
    ends_at_call: bool = False

    def is_open_in(self, answer_begin: str) -> bool:
        """Whether a prompt that ends so has begun the thinking and not ended it."""
        return answer_begin.rfind(self.begin) > answer_begin.rfind(self.end)


class MessageFormat(Protocol):
    """One family's. Immutable, shared by all requests."""

    @property
    def name(self) -> str: ...

    @property
    def thinking(self) -> Thinking | None: ...

    @property
    def has_calls(self) -> bool:
        """Whether this family can call functions at all."""
        ...

    @property
    def call_markers(self) -> Sequence[str]:
        """What calls begin with."""
        ...

    @property
    def is_always_marked(self) -> bool:
        """Even plain text has marks around it that are not a part of it."""
        ...

    @property
    def preserved_texts(self) -> Sequence[str]:
        """Control tokens whose texts the parser must see; others add nothing to the text."""
        ...

    def is_thinking_open(self, answer_begin: str) -> bool:
        """Whether an answer that goes on from this text (the end of the prompt) begins as thinking."""
        ...

    def parser(
        self,
        tools: ToolUse,
        reasoning: ReasoningOptions,
        *,
        is_thinking_open: bool = False,
        new_call_id: NewCallId | None = None,
    ) -> MessageParser:
        """For one answer, which may call `tools.callable_tools`."""
        ...

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        """What an answer must look like so that calls can be read and are those that may be made; None where
        nothing may be called. It is about what comes behind the thinking, or about the thinking as
        well where `is_thinking_constrained`."""
        ...

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        """An answer that must look so, in this family's marks."""
        ...

    @property
    def is_thinking_constrained(self) -> bool: ...


Script = Callable[[TextSource, MessageWriter], Steps[None]]


class ScriptedParser:
    """A MessageParser that follows a script, which waits where it needs more text. Text behind the end of
    the script, or of an answer that is complete, is dropped."""

    def __init__(self, script: Script, writer: MessageWriter) -> None:
        self._source = TextSource()
        self._writer = writer
        self._steps = script(self._source, writer)
        self._is_done = False
        self._is_begun = False
        self._go_on()

    def feed(self, text: str) -> Sequence[MessageDelta]:
        if text and not self._is_done:
            self._is_begun = True
            self._source.add(text)
            self._go_on()
        return self._writer.take()

    def finish(self) -> Sequence[MessageDelta]:
        self._source.is_ended = True
        if not self._is_done:
            self._go_on()
            self._writer.finish()
        return self._writer.take()

    def interject(self, text: str) -> Sequence[MessageDelta]:
        self._writer.content(text)
        return self._writer.take()

    @property
    def is_in_markup(self) -> bool:
        if self._is_done or not self._is_begun:
            return False
        return not self._source.is_given_to(self._writer.content, self._writer.reasoning)

    @property
    def is_reasoning(self) -> bool:
        return self._writer.is_thinking

    @property
    def is_complete(self) -> bool:
        return self._writer.is_complete

    @property
    def has_called(self) -> bool:
        return self._writer.has_called

    def _go_on(self) -> None:
        try:
            next(self._steps)
        except StopIteration:
            self._is_done = True


class MarkedFormat:
    """A format in which calls stand behind markers in the text.

    A subclass says which markers and reads a call from behind one of them (`call`). What is not a call
    after all is content, marker and all, and reading goes on behind it. Thinking comes first, if at all.
    """

    name: str = ""
    has_calls = True
    is_thinking_constrained = False
    is_always_marked = False
    thinking: Thinking | None = None
    thinks_anywhere = False
    """Thinking may begin in the middle of an answer, and again."""
    call_markers: tuple[str, ...] = ()
    """What calls begin with."""
    section_begin = ""
    """What stands before the first call: markup that says nothing, one of `silent_texts`."""
    silent_texts: tuple[str, ...] = ()
    """Markup that says nothing: not a part of the content."""
    preserved_texts: tuple[str, ...] = ()
    trims_content = False

    def is_thinking_open(self, answer_begin: str) -> bool:
        return self.thinking is not None and self.thinking.is_open_in(answer_begin)

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        return asked

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        """Read what follows `marker`. False where it is no call; what was read since is content then,
        unless the writer was told of a call already."""
        raise NotImplementedError

    new_call_id: NewCallId = staticmethod(call_ids.new_call_id)
    """For calls that the model gives none."""

    def parser(
        self,
        tools: ToolUse,
        reasoning: ReasoningOptions,
        *,
        is_thinking_open: bool = False,
        new_call_id: NewCallId | None = None,
    ) -> MessageParser:
        new_id = self.new_call_id if new_call_id is None else new_call_id

        def script(source: TextSource, writer: MessageWriter) -> Steps[None]:
            return self.read(source, writer, is_thinking_open=is_thinking_open)

        writer = MessageWriter(tools, reasoning, new_id, trims_content=self.trims_content)
        return ScriptedParser(script, writer)

    # -- the whole answer -------------------------------------------------------------------------

    def read(self, source: TextSource, writer: MessageWriter, *, is_thinking_open: bool) -> Steps[None]:
        found = self.found_markers(writer)
        marker: str | None = None
        if self.thinking is not None:
            marker = yield from self._begin(source, writer, self.thinking, is_open=is_thinking_open)
        while not writer.is_complete:
            if marker is None:
                marker = yield from source.until(found, writer.content)
            if marker is None:
                return
            if self.thinks_anywhere and self.thinking is not None and marker == self.thinking.begin:
                writer.begin_thinking(marker)
                marker = yield from self._think(source, writer, self.thinking)
                continue
            if marker not in self.silent_texts:
                yield from self._try_call(source, writer, marker)
            marker = None

    def found_markers(self, writer: MessageWriter) -> Markers:
        """What is looked for in content."""
        calls = self.call_markers if writer.tools.callable_tools else ()
        thinking = (self.thinking.begin,) if self.thinks_anywhere and self.thinking is not None else ()
        return markers(*calls, *self.silent_texts, *thinking)

    def _try_call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[None]:
        source.begin_attempt(marker)
        is_call = yield from self.call(source, writer, marker)
        text = source.end_attempt()
        if not is_call:
            writer.content(text)

    def _begin(
        self, source: TextSource, writer: MessageWriter, thinking: Thinking, *, is_open: bool
    ) -> Steps[str | None]:
        """The thinking, if there is any; what call it ended with, if so."""
        if is_open:
            writer.begin_thinking(thinking.begin, is_written=False)
            return (yield from self._think(source, writer, thinking))
        space = yield from source.space()
        first = yield from source.expect(thinking.begin, thinking.end)
        if first == thinking.begin:
            writer.begin_thinking(space + first)
            return (yield from self._think(source, writer, thinking))
        if first is None:
            writer.content(space)
        else:
            # Ended without having begun: there was none.
            writer.end_thinking(space + first)
        return None

    def _think(self, source: TextSource, writer: MessageWriter, thinking: Thinking) -> Steps[str | None]:
        ends = [thinking.end]
        if thinking.ends_at_call and writer.tools.callable_tools:
            ends += self.call_markers
            ends += [self.section_begin] if self.section_begin else []
        marker = yield from source.until(markers(*ends), writer.reasoning)
        if marker is None:
            return None
        if marker == thinking.end:
            writer.end_thinking(marker)
            return None
        writer.end_thinking()
        return marker
