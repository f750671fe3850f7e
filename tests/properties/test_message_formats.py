from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.message_deltas import (
    MessageDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.tools import ToolUse
from inference.parsing.formats.emulated import EMULATED
from inference.parsing.formats.message_format import MessageFormat
from inference.parsing.formats.registry import format_of
from tests.golden.answers import SOURCES, TOOLS, read
from tests.golden.transcripts import GOLDEN

FORMATS: list[MessageFormat] = [*(format_of(source) for source in SOURCES.values()), EMULATED]
# Pieces of markup of all families, and of what may stand between them.
PIECES = sorted(
    {
        *(text for one in FORMATS for text in one.preserved_texts),
        *(text for golden in GOLDEN for text in golden.text.split('"')),
        *"{}[]()<>:,=\\'\" \n",
        *("TOOL_CALL", '{"name": "get_time", "arguments": {"city": "', "functions.get_time:0", "😀", "null"),
    }
)


def cut(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(one % (len(text) + 1) for one in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]


@given(st.sampled_from(GOLDEN), st.lists(st.integers(0, 10_000), max_size=12))
def test_transcripts_mean_the_same_however_they_are_cut(golden: object, cuts: list[int]) -> None:
    one = next(known for known in GOLDEN if known is golden)
    parser = one.parser()
    one.check(read(parser, *cut(one.text, cuts)), has_called=parser.has_called)


@settings(max_examples=400)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=14),
    st.lists(st.integers(0, 10_000), max_size=8),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from(ReasoningFormat),
)
def test_any_text_means_the_same_however_it_is_cut(
    one: MessageFormat,
    pieces: list[str],
    cuts: list[int],
    ways: tuple[bool, bool],
    reasoning: ReasoningFormat,
) -> None:
    is_open, is_parallel = ways
    text = "".join(pieces)
    tools = ToolUse(TOOLS, is_parallel=is_parallel)
    results = []
    for parts in ([text], cut(text, cuts), list(text)):
        numbers = iter(range(10_000))
        parser = one.parser(
            tools,
            ReasoningOptions(format=reasoning),
            is_thinking_open=is_open,
            new_call_id=lambda numbers=numbers: f"new_{next(numbers)}",  # type: ignore[misc]
        )
        message = read(parser, *parts)
        results.append((message, parser.has_called, parser.is_complete))
    assert results[0] == results[1] == results[2]


@given(
    st.sampled_from(FORMATS),
    st.lists(st.sampled_from(PIECES), max_size=14),
    st.booleans(),
)
def test_calls_come_one_after_the_other_and_ids_are_unique(
    one: MessageFormat, pieces: list[str], is_parallel: bool
) -> None:
    parser = one.parser(ToolUse(TOOLS, is_parallel=is_parallel), ReasoningOptions())
    deltas: list[MessageDelta] = []
    for piece in pieces:
        deltas += parser.feed(piece)
    deltas += parser.finish()
    begun: list[ToolCallBegin] = []
    is_open = False
    for delta in deltas:
        match delta:
            case ToolCallBegin(index, _, name):
                assert not is_open
                assert index == len(begun)
                assert name in {tool.name for tool in TOOLS}
                begun.append(delta)
                is_open = True
            case ToolCallArguments(index):
                assert is_open
                assert index == len(begun) - 1
            case ToolCallEnd(index):
                assert is_open
                assert index == len(begun) - 1
                is_open = False
    assert len({call.id for call in begun}) == len(begun)
    assert parser.has_called is (bool(begun) and not is_open)
    assert is_parallel or len(begun) <= 1
