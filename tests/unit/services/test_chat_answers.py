from __future__ import annotations

from dataclasses import replace
from typing import Any

from inference.domain.chat_prompt import ChatPrompt
from inference.domain.constraint import (
    ConstraintRefused,
    ConstraintSpec,
    InOrder,
    JsonSchema,
    OutputConstraint,
    Tag,
    TaggedText,
)
from inference.domain.message_deltas import ContentDelta, MessageBuilder, ReasoningDelta
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.openai.protocol import ChatRequest, SamplingRequest
from inference.parsing.thinking_constraint import ThinkingConstraint
from inference.services.chat_answers import ChatAnswer, chat_answer
from tests.golden.answers import SOURCES
from tests.scripted_engine import ByteTokenizer

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
LOOSE, STRICT = ToolSpec("loose", parameters=SCHEMA), ToolSpec("strict", parameters=SCHEMA, is_strict=True)
ASKED = JsonSchema({"type": "integer"})


class Model:
    """As much of a served model as an answer needs."""

    tokenizer = ByteTokenizer()


class Compiled:
    def begin(self) -> Any:
        raise ConstraintRefused("nobody begins this one")


COMPILED: OutputConstraint = Compiled()


def answer(
    family: str = "hermes",
    *,
    begin: str = "<|im_start|>assistant\n",
    is_emulated: bool = False,
    **fields: Any,
) -> ChatAnswer:
    request = ChatRequest(
        model="m",
        sampling=SamplingRequest(),
        messages=(ChatMessage(role="user", content="hi"),),
        **fields,
    )
    prompt = ChatPrompt((1,), begin, SOURCES[family], is_emulated=is_emulated)
    return chat_answer(request, prompt)


def constraint(one: ChatAnswer, compiled: OutputConstraint | None = COMPILED) -> OutputConstraint | None:
    model: Any = Model()
    return one.constraint(model, compiled)


def bodies(spec: ConstraintSpec) -> list[ConstraintSpec]:
    """The schemas of a constraint, in any depth."""
    match spec:
        case TaggedText(tags):
            return [body for tag in tags for body in bodies(tag.body)]
        case InOrder(parts):
            return [body for part in parts for body in bodies(part)]
        case _:
            return [spec]


def test_a_plain_chat_is_free_and_plain() -> None:
    one = answer("gigachat-3")
    model: Any = Model()
    assert one.specs == ()
    assert one.reader(model).is_plain
    assert constraint(one, None) is None


def test_tools_that_are_not_strict_may_have_any_arguments_if_their_own_cannot_be_enforced() -> None:
    one = answer(tool_use=ToolUse((LOOSE, STRICT)))
    assert [[body.schema for body in bodies(spec)] for spec in one.specs] == [  # type: ignore[union-attr]
        [SCHEMA, SCHEMA],
        [{"type": "object"}, SCHEMA],
    ]
    assert one.param == "tools"
    assert len(answer(tool_use=ToolUse((STRICT,))).specs) == 1


def test_an_answer_that_was_asked_for_may_be_a_call_instead() -> None:
    one = answer(tool_use=ToolUse((STRICT,)), constraint=ASKED, constraint_param="response_format")
    (spec,) = one.specs
    assert bodies(spec) == [ASKED, JsonSchema(SCHEMA)]
    assert one.param == "response_format"
    one = answer(
        tool_use=ToolUse((STRICT,), mode=ToolMode.REQUIRED),
        constraint=ASKED,
        constraint_param="response_format",
    )
    (spec,) = one.specs
    assert bodies(spec) == [JsonSchema(SCHEMA)]
    assert one.param == "tools"


def test_where_nothing_may_be_called_only_what_was_asked_for_counts() -> None:
    one = answer(tool_use=ToolUse((STRICT,), mode=ToolMode.NONE), constraint=ASKED)
    assert one.specs == (ASKED,)


def test_tokens_that_begin_calls_are_kept_away_where_nothing_may_be_called() -> None:
    model: Any = Model()
    model.tokenizer = ByteTokenizer()
    model.tokenizer.special_texts = ("<tool_call>", "<|im_end|>", "<|endoftext|>")
    sampling = SamplingRequest(logit_bias=((5, 1.0), (256, 7.0)))
    none = ToolUse((STRICT,), mode=ToolMode.NONE)
    one = chat_answer(
        replace(answer(tool_use=none).request, sampling=sampling), ChatPrompt((1,), "", SOURCES["hermes"])
    )
    assert dict(one.sampling(model).logit_bias) == {5: 1.0, 256: -100.0}
    for tools in (ToolUse(), ToolUse((STRICT,))):
        assert answer(tool_use=tools).sampling(model).logit_bias is None
    # As text it cannot be kept away.
    assert answer("minimax-m2", tool_use=none).sampling(model).logit_bias == ()


def test_families_write_what_was_asked_for_between_their_marks() -> None:
    (spec,) = answer("command-r7b", constraint=ASKED).specs
    assert isinstance(spec, TaggedText)
    assert spec.tags == (Tag("<|START_RESPONSE|>", ASKED, "<|END_RESPONSE|>"),)
    (spec,) = answer("harmony", constraint=ASKED).specs
    assert bodies(spec)[-1] == ASKED


def test_thinking_that_the_prompt_began_is_free() -> None:
    one = answer(begin="<|im_start|>assistant\n<think>\n", constraint=ASKED)
    found = constraint(one)
    assert isinstance(found, ThinkingConstraint)
    assert found.is_open
    assert found.answer is COMPILED
    closed = answer(begin="<|im_start|>assistant\n<think>\n\n</think>\n\n", constraint=ASKED)
    # "<think>" is seven tokens of this vocabulary: its models do not begin to think by themselves.
    assert constraint(closed) is COMPILED


def test_a_budget_needs_no_other_constraint() -> None:
    found = constraint(answer(reasoning=ReasoningOptions(max_tokens=7)), None)
    assert isinstance(found, ThinkingConstraint)
    assert (found.max_tokens, found.answer, found.is_open) == (7, None, False)
    # Nobody thinks here.
    assert constraint(answer("gigachat-3", reasoning=ReasoningOptions(max_tokens=7)), None) is None
    off = ReasoningOptions(is_enabled=False, max_tokens=0)
    assert constraint(answer(reasoning=off), None) is None


def test_raw_text_is_not_read() -> None:
    model: Any = Model()
    one = answer(wants_raw_text=True, tool_use=ToolUse((STRICT,)), begin="<think>")
    assert one.specs == ()
    assert one.reader(model).is_plain


def test_what_is_read_follows_the_prompt() -> None:
    model: Any = Model()
    text = b"hm</think>ok"
    reader = answer(begin="<think>\n").reader(model)
    assert [*reader.feed(tuple(text)).deltas] == [
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        ContentDelta("o"),
        ContentDelta("k"),
    ]
    hidden = answer(begin="<think>\n", reasoning=ReasoningOptions(format=ReasoningFormat.HIDDEN))
    assert [*hidden.reader(model).feed(tuple(text)).deltas] == [ContentDelta("o"), ContentDelta("k")]
    emulated = answer("gigachat-3", is_emulated=True, tool_use=ToolUse((STRICT,)))
    assert emulated.format.name == "emulated"
    assert not emulated.reader(model).is_plain
    emulated = answer("ministral-3", begin="[THINK]", is_emulated=True, tool_use=ToolUse((STRICT,)))
    deltas = emulated.reader(model).feed(tuple(b'hm[/THINK]TOOL_CALL {"name": "strict"}')).deltas
    assert MessageBuilder(deltas).message().reasoning == "hm"
    assert MessageBuilder(deltas).message().tool_calls[0].name == "strict"
