"""gpt-oss: an answer is several messages, each with a channel and maybe with whom it is for.

    <|channel|>analysis<|message|>…<|end|>
    <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
    <|start|>assistant<|channel|>final<|message|>…

The prompt ends with the first `<|start|>assistant`; `<|call|>` and `<|return|>` end the generation. Analysis
is thinking. A message to somebody who was not offered (the models know tools of their own) is dropped.
"""

from __future__ import annotations

import re
from typing import Final

from inference.domain.constraint import ConstraintSpec, InOrder, JsonSchema, Regex, Tag, TaggedText
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import arguments_schema
from inference.parsing.formats.json_calls import json_arguments
from inference.parsing.formats.message_format import MarkedFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Markers, Steps, TextSource, markers

_MESSAGE: Final = "<|message|>"
_RECIPIENT: Final = re.compile(r"to=([^\s<]+)")
_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_FUNCTIONS: Final = "functions."
# Behind any of these the text of a message is over.
_ENDS: Final[Markers] = markers("<|end|>", "<|start|>", "<|channel|>", "<|call|>", "<|return|>")
_HEADER_ENDS: Final[Markers] = markers(_MESSAGE, "<|end|>", "<|call|>", "<|return|>")
_ANY: Final = Regex("(?s:.*)")
_ANALYSIS: Final = Tag("<|channel|>analysis<|message|>", _ANY, "<|end|><|start|>assistant")


class HarmonyFormat(MarkedFormat):
    name = "harmony"
    thinking = Thinking("<|channel|>analysis<|message|>", "<|end|>")
    is_thinking_constrained = True
    is_always_marked = True
    preserved_texts = (
        "<|channel|>",
        "<|constrain|>",
        "<|message|>",
        "<|start|>",
        "<|end|>",
        "<|call|>",
        "<|return|>",
    )

    def read(self, source: TextSource, writer: MessageWriter, *, is_thinking_open: bool) -> Steps[None]:
        end: str | None
        if is_thinking_open:
            writer.begin_thinking(self.thinking.begin, is_written=False)
            end = yield from self._analysis(source, writer)
        else:
            # What goes on an answer has no header.
            first = yield from source.expect("<|start|>", "<|channel|>", " to=", _MESSAGE)
            if first is None:
                end = yield from source.until(_ENDS, writer.content)
            else:
                end = yield from self._message(source, writer, first)
        while end is not None and not writer.is_complete:
            if end in {"<|end|>", "<|call|>", "<|return|>"}:
                first = yield from source.expect("<|start|>", "<|channel|>")
                if first is None:
                    end = yield from source.until(_ENDS, writer.content)
                    continue
                end = first
            end = yield from self._message(source, writer, end)

    def _message(self, source: TextSource, writer: MessageWriter, first: str) -> Steps[str | None]:
        """One, from the first mark of its header; the mark that it ended with."""
        header = [first]
        if first != _MESSAGE:
            end = yield from source.until(_HEADER_ENDS, header.append)
            if end != _MESSAGE:
                return end
        text = "".join(header)
        recipients = _RECIPIENT.findall(text)
        channels = _CHANNEL.findall(text)
        recipient = recipients[-1] if recipients else ""
        # The last one: models begin with a commentary to themselves and go on to another channel.
        channel = channels[-1] if channels else "final"
        if recipient.startswith(_FUNCTIONS) and writer.tools.callable_tools:
            name = recipient.removeprefix(_FUNCTIONS)
            yield from json_arguments(source, writer, name, ends=("<|call|>", "<|end|>"))
            if writer.is_complete:
                return None
            return (yield from source.until(_ENDS, _ignore))
        if recipient not in {"", "assistant", "all"}:
            return (yield from source.until(_ENDS, _ignore))
        if channel == "analysis":
            writer.begin_thinking(self.thinking.begin)
            return (yield from self._analysis(source, writer))
        return (yield from source.until(_ENDS, writer.content))

    def _analysis(self, source: TextSource, writer: MessageWriter) -> Steps[str | None]:
        end = yield from source.until(_ENDS, writer.reasoning)
        if end is not None:
            writer.end_thinking("<|end|>")
        return end

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        """Thinking and remarks first, then the answer or a call."""
        calls = [
            Tag(
                f"<|channel|>commentary to=functions.{tool.name} <|constrain|>json<|message|>",
                JsonSchema(arguments_schema(tool)),
            )
            for tool in tools.callable_tools
        ]
        if not calls:
            return None
        remark = Tag("<|channel|>commentary<|message|>", _ANY, "<|end|><|start|>assistant")
        answer = Tag("<|channel|>final<|message|>", _ANY)
        before = (_ANALYSIS,) if tools.is_enforced else (_ANALYSIS, remark)
        last = tuple(calls) if tools.is_enforced else (answer, *calls)
        return InOrder((_tags(before, min_tags=0, max_tags=None), _tags(last, min_tags=1, max_tags=1)))

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        answer = Tag("<|channel|>final <|constrain|>json<|message|>", asked)
        return InOrder(
            (_tags((_ANALYSIS,), min_tags=0, max_tags=None), _tags((answer,), min_tags=1, max_tags=1))
        )


def _tags(tags: tuple[Tag, ...], *, min_tags: int, max_tags: int | None) -> TaggedText:
    return TaggedText(
        tags=tags,
        triggers=(),
        has_free_text=False,
        has_later_text=False,
        min_tags=min_tags,
        max_tags=max_tags,
    )


def _ignore(text: str) -> None:
    """Of no use to anybody."""


def of_template(source: str) -> HarmonyFormat | None:
    return HarmonyFormat() if "<|channel|>" in source else None
