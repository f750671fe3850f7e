"""A name, then arguments as JSON, with marks around them.

DeepSeek V3.1      <｜tool▁calls▁begin｜>
                   <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>…
                   <｜tool▁calls▁end｜>
DeepSeek V3, R1    the same with `function<｜tool▁sep｜>f` and {…} in a fence of JSON
Kimi K2            <|tool_calls_section_begin|>
                   <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}<|tool_call_end|>…
                   <|tool_calls_section_end|>
Functionary 3.1    <function=f>{…}</function>
"""

from __future__ import annotations

from typing import Final

from inference.domain.constraint import ConstraintSpec, InOrder, JsonSchema, Regex, Tag
from inference.domain.tools import ToolSpec, ToolUse
from inference.parsing.formats.call_constraints import arguments_schema, listed_calls, one_tag, tagged_calls
from inference.parsing.formats.json_calls import call_name, json_arguments
from inference.parsing.formats.message_format import MarkedFormat, MessageFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource

_THINK: Final = Thinking("<think>", "</think>", ends_at_call=True)


class _SectionedFormat(MarkedFormat):
    """Calls stand together in a section; its marks say nothing that the calls' own do not."""

    section_end: str
    call_begin: str
    call_end: str

    def __init__(self) -> None:
        self.call_markers = (self.call_begin,)
        self.silent_texts = (self.section_begin, self.section_end, self.call_end)


class DeepSeekFormat(_SectionedFormat):
    """V3.1 where `is_fenced` is False, V3 and R1 where it is True."""

    section_begin, section_end = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
    call_begin, call_end = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
    separator = "<｜tool▁sep｜>"

    def __init__(self, *, is_fenced: bool) -> None:
        super().__init__()
        self.name = "deepseek-r1" if is_fenced else "deepseek-v3.1"
        self._is_fenced = is_fenced
        self.thinking = Thinking("<think>", "</think>")
        self.preserved_texts = (self.call_begin, *self.silent_texts, self.separator, "<think>", "</think>")

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        name = yield from call_name(source)
        if not name or (yield from source.expect(self.separator)) is None:
            return False
        if name == "function" and self._is_fenced:
            name = yield from call_name(source)
            yield from source.space()
            if not name or (yield from source.expect("```json")) is None:
                return False
        yield from json_arguments(source, writer, name, ends=(self.call_end,))
        yield from source.space()
        yield from source.expect("```")
        return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [self._tag(tool) for tool in tools.callable_tools]
        separator = "\n" if self._is_fenced else ""
        begin, end = self.section_begin, self.section_end
        return listed_calls(tools, begin, begin, end, tags, separator=separator)

    def _tag(self, tool: ToolSpec) -> Tag:
        arguments = JsonSchema(arguments_schema(tool))
        if not self._is_fenced:
            return Tag(f"{self.call_begin}{tool.name}{self.separator}", arguments, self.call_end)
        begin = f"{self.call_begin}function{self.separator}{tool.name}\n```json\n"
        return Tag(begin, arguments, f"\n```{self.call_end}")


class KimiK2Format(_SectionedFormat):
    """Its ids are `functions.NAME:INDEX`, and the name is a part of them."""

    name = "kimi-k2"
    section_begin, section_end = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
    call_begin, call_end = "<|tool_call_begin|>", "<|tool_call_end|>"
    arguments_begin = "<|tool_call_argument_begin|>"
    thinking = _THINK

    def __init__(self) -> None:
        super().__init__()
        self.preserved_texts = (
            self.call_begin,
            self.arguments_begin,
            *self.silent_texts,
            "<think>",
            "</think>",
        )

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        yield from source.space()
        call_id = yield from call_name(source)
        yield from source.space()
        if (yield from source.expect(self.arguments_begin)) is None:
            return False
        name = call_id.removeprefix("functions.").rpartition(":")[0]
        if not name:
            return False
        yield from json_arguments(source, writer, name, call_id, ends=(self.call_end,))
        return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [
            Tag(
                f"{self.call_begin}functions.{tool.name}:",
                InOrder(
                    (
                        Regex("[0-9]{1,3}"),
                        one_tag(Tag(self.arguments_begin, JsonSchema(arguments_schema(tool)))),
                    )
                ),
                self.call_end,
            )
            for tool in tools.callable_tools
        ]
        begin, end = self.section_begin, self.section_end
        return listed_calls(tools, begin, begin, end, tags, separator="")


class FunctionaryFormat(MarkedFormat):
    """Functionary 3.1. Its marks are plain text: a name that was not offered is no call."""

    name = "functionary-v3.1"
    call_markers = ("<function=",)

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        name = yield from call_name(source)
        if not writer.may_call(name) or (yield from source.expect(">")) is None:
            return False
        yield from json_arguments(source, writer, name, ends=("</function>",))
        yield from source.space()
        yield from source.expect("</function>")
        return True

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        tags = [
            Tag(f"<function={tool.name}>", JsonSchema(arguments_schema(tool)), "</function>")
            for tool in tools.callable_tools
        ]
        return tagged_calls(tools, tags, trigger="<function=")


def of_template(source: str) -> MessageFormat | None:
    if "<|tool_calls_section_begin|>" in source and "<|tool_call_begin|>" in source:
        return KimiK2Format()
    if "<｜tool▁calls▁begin｜>" in source:
        return DeepSeekFormat(is_fenced="```json" in source)
    if "<function=" in source and "<parameter=" not in source and "</function>" in source:
        return FunctionaryFormat()
    return None
