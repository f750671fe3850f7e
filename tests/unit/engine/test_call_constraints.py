"""What the constraints of calls let through is what the readers of calls understand."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from inference.domain.constraint import ConstraintState
from inference.domain.reasoning import ReasoningOptions
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.engine.llama.constraints import LlamaConstraintCompiler
from inference.parsing.formats.emulated import EMULATED
from inference.parsing.formats.message_format import MessageFormat
from inference.parsing.formats.registry import format_of
from tests.golden.answers import SOURCES, TOOLS, read
from tests.golden.transcripts import GOLDEN
from tests.scripted_engine import ByteTokenizer

END = 257
FORMATS: dict[str, MessageFormat] = {
    **{family: format_of(source) for family, source in SOURCES.items()},
    "emulated": EMULATED,
}
CALLING = [family for family, one in FORMATS.items() if one.has_calls]
# Arguments of which there are few: a walk at random comes to its end.
FEW = (
    ToolSpec(
        "pick",
        parameters={
            "type": "object",
            "properties": {
                "number": {"type": "integer", "enum": [1, 20]},
                "word": {"type": "string", "enum": ["left", 'it\'s "right"']},
                "flag": {"anyOf": [{"const": True}, {"type": "null"}]},
            },
            "required": ["number", "word"],
            "additionalProperties": False,
        },
    ),
    ToolSpec("go"),
    ToolSpec(
        "maybe",
        parameters={
            "type": "object",
            "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}},
            "additionalProperties": False,
        },
    ),
)


@pytest.fixture(scope="module")
def compiler() -> Iterator[LlamaConstraintCompiler]:
    made = LlamaConstraintCompiler(ByteTokenizer())
    yield made
    made.close()


def begun(compiler: LlamaConstraintCompiler, family: str, tools: ToolUse) -> ConstraintState:
    spec = FORMATS[family].constraint(tools)
    assert spec is not None
    return compiler.compile(spec).begin()


def written(state: ConstraintState, text: str) -> str:
    """As much of the text as may be written."""
    data = text.encode()
    for index, token_id in enumerate(data):
        if not state.accepts(token_id):
            return data[:index].decode("utf-8", "replace")
        state.advance(token_id)
    return text


def walk(state: ConstraintState, chance: random.Random) -> str:
    """An answer at random, as short as the constraint allows."""
    data = bytearray()
    while not state.accepts(END):
        mask = state.mask()
        (token_id,) = chance.sample([one for one in range(256) if mask[one]], 1)
        data.append(token_id)
        state.advance(token_id)
        assert len(data) < 5_000
    return data.decode()


# Harmony lets a model think first, for as long as it likes: no walk at random comes out of that.
@pytest.mark.parametrize("family", [family for family in CALLING if family != "harmony"])
@pytest.mark.parametrize("mode", [ToolMode.REQUIRED, ToolMode.NAMED])
def test_enforced_calls_are_calls_with_arguments_that_fit(
    compiler: LlamaConstraintCompiler, family: str, mode: ToolMode
) -> None:
    chance = random.Random(family)
    named = "pick" if mode is ToolMode.NAMED else None
    tools = ToolUse(FEW, mode=mode, name=named, is_parallel=False)
    allowed = {
        "pick": [
            {"number": number, "word": word} for number in (1, 20) for word in ("left", 'it\'s "right"')
        ],
        "go": [{}],
        "maybe": [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}],
    }
    allowed["pick"] += [{**one, "flag": flag} for one in allowed["pick"] for flag in (True, None)]
    for _ in range(20):
        text = walk(begun(compiler, family, tools), chance)
        parser = FORMATS[family].parser(tools, ReasoningOptions())
        message = read(parser, text)
        (call,) = message.tool_calls
        assert parser.has_called, text
        assert message.content is None, text
        assert json.loads(call.arguments) in allowed[call.name], text
        assert named in {None, call.name}


CANONICAL = {
    golden.text: golden.family
    for golden in GOLDEN
    if golden.calls and golden.has_called is None and golden.family != "plain"
}


@pytest.mark.parametrize("family", CALLING)
def test_what_models_write_by_themselves_is_allowed(compiler: LlamaConstraintCompiler, family: str) -> None:
    """At least one of the transcripts with a call, as far as a call."""
    one = FORMATS[family]
    mode = ToolMode.AUTO if one.constraint(ToolUse(TOOLS)) is not None else ToolMode.REQUIRED
    tools = ToolUse(TOOLS, mode=mode)
    best = ""
    for text, its_family in CANONICAL.items():
        if its_family == family:
            behind = text
            if one.thinking is not None and not one.is_thinking_constrained and one.thinking.end in text:
                behind = text.partition(one.thinking.end)[2]
            best = max(best, written(begun(compiler, family, tools), behind), key=len)
    assert read(one.parser(tools, ReasoningOptions()), best).tool_calls, best


@pytest.mark.parametrize("family", CALLING)
def test_names_and_arguments_that_do_not_fit_are_not_allowed(
    compiler: LlamaConstraintCompiler, family: str
) -> None:
    one = FORMATS[family]
    tools = ToolUse((FEW[0],), mode=ToolMode.REQUIRED)
    for text, its_family in CANONICAL.items():
        if its_family == family:
            assert written(begun(compiler, family, tools), text) != text
    assert one.constraint(ToolUse(FEW, mode=ToolMode.NONE)) is None


def test_text_without_calls_stays_free(compiler: LlamaConstraintCompiler) -> None:
    for family in CALLING:
        one = FORMATS[family]
        if one.constraint(ToolUse(TOOLS)) is None or family == "harmony":
            continue
        state = begun(compiler, family, ToolUse(TOOLS))
        assert written(state, "It is late. < { [") == "It is late. < { ["
        assert state.accepts(END)
