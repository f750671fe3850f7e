"""Families that write each argument in a tag of its own.

Qwen3-Coder, Qwen 3.5, Nemotron 3 Nano, StepFun 3.5
    <tool_call>\\n<function=f>\\n<parameter=a>\\n1\\n</parameter>\\n</function>\\n</tool_call>
Seed-OSS
    <seed:tool_call>\\n<function=f>\\n<parameter=a>1</parameter>\\n</function>\\n</seed:tool_call>
GLM 4.5 to 4.7, Spark 2.5, Ling 3, Laguna
    <tool_call>f\\n<arg_key>a</arg_key>\\n<arg_value>1</arg_value>\\n</tool_call>
MiniMax-M2
    <minimax:tool_call>\\n<invoke name="f">\\n<parameter name="a">1</parameter>\\n</invoke>\\n
        </minimax:tool_call>
DeepSeek V3.2, V4
    <｜DSML｜function_calls>\\n<｜DSML｜invoke name="f">\\n
    <｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\\n
        </｜DSML｜invoke>\\n</｜DSML｜function_calls>
Kimi K3
    <|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1
    <|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>
MiniCPM5
    <function name="f"><param name="a">1</param></function>
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from inference.domain.constraint import ConstraintSpec, InOrder, Regex, Tag
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import listed_calls, one_tag, tagged_calls
from inference.parsing.formats.message_format import MarkedFormat, MessageFormat, Thinking
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.tagged_calls import TagStyle, tagged_call, tagged_call_body
from inference.parsing.formats.text_source import Steps, TextSource
from inference.parsing.formats.thinking_marks import thinking_of

_QWEN: Final = TagStyle(
    call_begin="<function=",
    call_tail=">",
    call_end="</function>",
    parameter_begin="<parameter=",
    parameter_tail=">",
    parameter_end="</parameter>",
    value_break="\n",
)
_SEED: Final = TagStyle(
    call_begin="<function=",
    call_tail=">",
    call_end="</function>",
    parameter_begin="<parameter=",
    parameter_tail=">",
    parameter_end="</parameter>",
)
_GLM: Final = TagStyle(
    call_begin="",
    call_tail="",
    call_end="</tool_call>",
    parameter_begin="<arg_key>",
    parameter_tail="</arg_key>",
    parameter_end="</arg_value>",
    value_begin="<arg_value>",
)
_MINIMAX: Final = TagStyle(
    quote='"',
    call_begin='<invoke name="',
    call_tail=">",
    call_end="</invoke>",
    parameter_begin='<parameter name="',
    parameter_tail=">",
    parameter_end="</parameter>",
)
_DSML: Final = TagStyle(
    quote='"',
    call_begin='<｜DSML｜invoke name="',
    call_tail=">",
    call_end="</｜DSML｜invoke>",
    parameter_begin='<｜DSML｜parameter name="',
    parameter_tail=">",
    parameter_end="</｜DSML｜parameter>",
    string_attribute=' string="true"',
    json_attribute=' string="false"',
)
_KIMI_K3: Final = TagStyle(
    quote='"',
    call_begin='<|open|>call tool="',
    call_tail="<|sep|>",
    call_end="<|close|>call<|sep|>",
    parameter_begin='<|open|>argument key="',
    parameter_tail="<|sep|>",
    parameter_end="<|close|>argument<|sep|>",
    line_break="",
    has_types=True,
)
_MINICPM: Final = TagStyle(
    quote='"',
    call_begin='<function name="',
    call_tail=">",
    call_end="</function>",
    parameter_begin='<param name="',
    parameter_tail=">",
    parameter_end="</param>",
    line_break="",
    has_cdata=True,
)


@dataclass(frozen=True, slots=True)
class TaggedFamily:
    """How one of them writes calls. Each call stands between `begin` and `end`; with `is_section` all of them
    do together. `has_bare_calls`: the models may leave `begin` away."""

    name: str
    style: TagStyle
    begin: str = ""
    end: str = ""
    is_section: bool = False
    has_bare_calls: bool = False
    preserved_texts: tuple[str, ...] = ()
    silent_texts: tuple[str, ...] = ()


class TaggedFormat(MarkedFormat):
    """Text in tags: a name that was not offered is no call where the tags could stand in any text."""

    def __init__(self, family: TaggedFamily, thinking: Thinking | None) -> None:
        self._family = family
        self.name = family.name
        self.thinking = thinking
        self.is_always_marked = bool(family.silent_texts)
        style = family.style
        if family.is_section:
            self.call_markers = (style.call_begin,)
            self.section_begin = family.begin
            silent = (family.begin, family.end, *family.silent_texts)
            self.silent_texts = tuple([text for text in silent if text])
        else:
            self.call_markers = (family.begin, style.call_begin) if family.has_bare_calls else (family.begin,)
        marks = () if thinking is None else (thinking.begin, thinking.end)
        self.preserved_texts = tuple(
            dict.fromkeys(
                [text for text in (family.begin, family.end, *marks, *family.preserved_texts) if text]
            )
        )

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        family, style = self._family, self._family.style
        is_bare = marker == style.call_begin
        if not is_bare and style.call_begin:
            yield from source.space()
            if (yield from source.expect(style.call_begin)) is None:
                return False
        if not style.call_begin:
            yield from source.space()
        must_be_known = (is_bare and not family.is_section) or not family.begin
        is_call = yield from tagged_call(source, writer, style, must_be_known=must_be_known)
        if is_call and not writer.is_complete and not family.is_section and family.end != style.call_end:
            source.begin_attempt("")
            yield from source.space()
            yield from source.expect(family.end)
            writer.content(source.end_attempt().removesuffix(family.end))
        return is_call

    def answer(self, asked: ConstraintSpec) -> ConstraintSpec:
        if self._family.style is not _KIMI_K3:
            return asked
        return one_tag(Tag("<|open|>response<|sep|>", asked, "<|close|>response<|sep|>"))

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        family, style = self._family, self._family.style
        gap = style.line_break
        tags = []
        for tool in tools.callable_tools:
            tail = f"{style.quote}{style.call_tail}{gap}"
            body, begin, end = tagged_call_body(tool, style), f"{style.call_begin}{tool.name}", style.call_end
            if style.has_types:
                begin += f'{style.quote} index="'
                body = InOrder((Regex("[0-9]{1,3}"), one_tag(Tag(tail, body))))
            else:
                begin += tail
            if family.is_section:
                # In front of each call and of the end: a grammar's words are told apart by their beginnings.
                begin = gap + begin if family.begin else begin
            else:
                begin = f"{family.begin}{gap if style.call_begin else ''}{begin}"
                end = end if end == family.end else f"{end}{gap}{family.end}"
            tags.append(Tag(begin, body, end))
        if family.is_section and family.begin:
            return listed_calls(tools, family.begin, family.begin, gap + family.end, tags, separator="")
        return tagged_calls(tools, tags, trigger=family.begin or style.call_begin, separator=gap)


_ARGUMENT_TAGS: Final = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def of_template(source: str) -> MessageFormat | None:
    family = _family(source)
    if family is None:
        return None
    thinking = thinking_of(source, ends_at_call=True)
    if family.style is _KIMI_K3:
        thinking = Thinking("<|open|>think<|sep|>", "<|close|>think<|sep|>", ends_at_call=True)
    return TaggedFormat(family, thinking)


def _family(source: str) -> TaggedFamily | None:
    if "<arg_key>" in source and "<tool_call>" in source:
        is_tight = "</arg_key><arg_value>" in source.replace(" ", "")
        style = replace(_GLM, line_break="") if is_tight else _GLM
        return TaggedFamily("glm", style, "<tool_call>", "</tool_call>", preserved_texts=_ARGUMENT_TAGS)
    if "DSML" in source:
        block = "function_calls" if "function_calls" in source else "tool_calls"
        return TaggedFamily(
            "deepseek-dsml",
            _DSML,
            f"<｜DSML｜{block}>",
            f"</｜DSML｜{block}>",
            is_section=True,
            preserved_texts=("｜DSML｜",),
        )
    if "<|open|>" in source and "<|close|>" in source:
        return TaggedFamily(
            "kimi-k3",
            _KIMI_K3,
            "<|open|>tools<|sep|>",
            "<|close|>tools<|sep|>",
            is_section=True,
            preserved_texts=("<|open|>", "<|close|>", "<|sep|>"),
            silent_texts=(
                "<|open|>response<|sep|>",
                "<|close|>response<|sep|>",
                "<|close|>message<|sep|>",
            ),
        )
    if '<function name="' in source and '<param name="' in source:
        return TaggedFamily("minicpm5", _MINICPM, is_section=True)
    if "<function=" in source and "<parameter=" in source:
        if "<seed:tool_call>" in source:
            return TaggedFamily("seed-oss", _SEED, "<seed:tool_call>", "</seed:tool_call>")
        return TaggedFamily("qwen3-coder", _QWEN, "<tool_call>", "</tool_call>", has_bare_calls=True)
    if "<minimax:tool_call>" in source:
        return TaggedFamily(
            "minimax-m2", _MINIMAX, "<minimax:tool_call>", "</minimax:tool_call>", is_section=True
        )
    return None
