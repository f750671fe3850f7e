"""Text that the model did not write, put into answers of each family wherever that is allowed."""

from __future__ import annotations

import pytest

from inference.domain.logprobs import TokenLogprobs
from inference.domain.message_deltas import ContentDelta, MessageBuilder, MessageDelta, MessageParser
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.domain.tools import ToolUse
from inference.parsing.answer_reader import AnswerReader
from inference.parsing.formats.hermes import HermesFormat
from inference.parsing.text_stream import TextStream
from tests.golden.answers import SOURCES, Golden
from tests.golden.transcripts import GOLDEN
from tests.scripted_engine import ByteTokenizer

MARK = "⟦words of a policy⟧"


def deltas_with(parser: MessageParser, text: str, at: int) -> list[MessageDelta] | None:
    """Of an answer with MARK put in behind its first `at` characters; None where nothing can be put in."""
    deltas: list[MessageDelta] = []
    for character in text[:at]:
        deltas += parser.feed(character)
    if parser.is_in_markup:
        return None
    deltas += parser.interject(MARK)
    for character in text[at:]:
        deltas += parser.feed(character)
    deltas += parser.finish()
    return deltas


def bare(text: str | None) -> str:
    """Space around markup is dropped or not, by what stands beside it."""
    return "".join((text or "").split())


@pytest.mark.parametrize("golden", GOLDEN, ids=[f"{one.family}-{place}" for place, one in enumerate(GOLDEN)])
def test_nothing_that_the_model_wrote_is_read_otherwise(golden: Golden) -> None:
    parser = golden.parser()
    plain = MessageBuilder([*parser.feed(golden.text), *parser.finish()]).message()
    for at in range(len(golden.text) + 1):
        deltas = deltas_with(golden.parser(), golden.text, at)
        if deltas is None:
            continue
        message = MessageBuilder(deltas).message()
        content = message.content or ""
        assert content.count(MARK) == 1, at
        assert bare(content.replace(MARK, "")) == bare(plain.content), at
        assert bare(message.reasoning) == bare(plain.reasoning), at
        assert [(one.name, one.arguments) for one in message.tool_calls] == [
            (one.name, one.arguments) for one in plain.tool_calls
        ], at


@pytest.mark.parametrize("family", SOURCES)
def test_it_may_come_before_the_first_text_of_every_family(family: str) -> None:
    for options in (ReasoningOptions(), ReasoningOptions(format=ReasoningFormat.NONE)):
        parser = Golden(family, "", options=options).parser()
        assert not parser.is_in_markup
        assert parser.interject(MARK) == [ContentDelta(MARK)]


@pytest.mark.parametrize("family", SOURCES)
def test_plain_text_can_be_interrupted_wherever_no_mark_may_begin(family: str) -> None:
    parser = Golden(family, "").parser()
    free = 0
    for character in "Hello, dear world. How are you?":
        parser.feed(character)
        free += not parser.is_in_markup
    assert free > 20


def test_what_waits_for_a_stop_comes_first_and_later_text_begins_a_new_one() -> None:
    stream = TextStream([b"ab", b"cd", b"d"], ["bcd"])
    assert stream.feed((0,)).text == "a"
    assert stream.interject("--") == "b--"
    assert stream.feed((1,)).text == "cd"
    assert not stream.is_stopped
    assert stream.feed((0,)).text == "a"
    assert stream.feed((1,)).is_stopped


def test_offsets_of_later_tokens_count_it() -> None:
    stream = TextStream([b"ab", b"cd"], ["bx"], tracks_tokens=True)
    stream.feed((0,))
    assert stream.interject("12345") == "ab12345"
    assert [span.offset for span in stream.take_spans()] == [0]
    assert stream.feed((1,)).text == "cd"
    assert [span.offset for span in stream.take_spans()] == [7]
    assert stream.finish() == ""


def test_a_reader_says_where_it_stands() -> None:
    reader = AnswerReader(ByteTokenizer())
    reader.feed("€".encode()[:2])
    assert reader.is_in_character
    assert not reader.is_in_markup
    reader.feed("€".encode()[2:])
    assert not reader.is_in_character


def test_stops_of_the_client_are_not_looked_for_in_it_nor_over_it() -> None:
    parser = HermesFormat(None).parser(ToolUse(), ReasoningOptions())
    reader = AnswerReader(ByteTokenizer(), parser=parser, stops=["END"])
    first = reader.feed(b"aEN")
    put_in = reader.interject(" END ")
    rest = reader.feed(b"D.")
    deltas = [*first.deltas, *put_in.deltas, *rest.deltas]
    assert MessageBuilder(deltas).message().content == "aEN END D."
    assert reader.found_stop is None
    assert reader.feed(b" END").is_ended


def test_its_tokens_are_nobodys() -> None:
    reader = AnswerReader(ByteTokenizer(), tracks_tokens=True)
    reader.feed(b"a", [TokenLogprobs(-0.1)])
    read = reader.interject("xyz")
    assert (read.deltas, read.tokens, read.num_tokens) == ((ContentDelta("xyz"),), (), 0)
    (token,) = reader.feed(b"b", [TokenLogprobs(-0.2)]).tokens
    assert token.offset == 4
