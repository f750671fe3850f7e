from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from inference.domain.logprobs import TokenLogprobs
from inference.domain.message_deltas import ContentDelta
from inference.parsing.echoed_prompt import EchoedPrompt, echoed_text
from tests.scripted_engine import ByteTokenizer


class WordTokenizer(ByteTokenizer):
    """Words with the space before them, as SentencePiece writes them; 2 is a control token."""

    pieces: Sequence[bytes] = (b" One", b" two", b"", b"\xf0\x9f", b"\x98\xb8")
    control_texts: Mapping[int, str] = {2: "<s>"}
    num_tokens = 5


def scored(token_ids: tuple[int, ...], sent: str | None) -> tuple[EchoedPrompt, list]:
    tokenizer = WordTokenizer()
    echo = EchoedPrompt(tokenizer, echoed_text(tokenizer, token_ids, sent), is_scored=True)
    begin = echo.begin()
    assert begin.is_prompt
    later = [TokenLogprobs(-float(token_id)) for token_id in token_ids[1:]]
    parts = [begin, echo.score(later[:1]), echo.score(later[1:])]
    assert not any(part.deltas for part in parts[1:])
    return echo, [token for part in parts for token in part.tokens]


def test_a_space_that_nobody_sent_is_not_in_text_or_tokens() -> None:
    echo, tokens = scored((2, 0, 1), "One two")
    assert echo.text == "One two"
    assert [(token.text, token.data, token.offset) for token in tokens] == [
        ("<s>", None, 0),
        ("One", b"One", 0),
        (" two", b" two", 3),
    ]
    assert [token.logprob for token in tokens] == [None, 0.0, -1.0]


def test_of_token_ids_all_is_echoed() -> None:
    echo, tokens = scored((0, 1), None)
    assert echo.text == " One two"
    assert [(token.text, token.offset) for token in tokens] == [(" One", 0), (" two", 4)]


def test_parts_of_characters() -> None:
    echo, tokens = scored((3, 4, 1), None)
    assert echo.text == "😸 two"
    assert b"".join(token.data for token in tokens).decode() == echo.text
    assert [token.offset for token in tokens] == [0, 0, 1]


def test_an_unfinished_character_at_the_end_of_a_prompt_is_written_as_one_that_is_none() -> None:
    echo, tokens = scored((1, 3), None)
    assert echo.text == " two\ufffd"
    assert len(tokens) == 2


def test_what_a_vocabulary_changes_is_echoed_as_it_was_sent() -> None:
    echo, tokens = scored((0, 1, 1), "ONE")
    assert echo.text == "ONE"
    assert [token.offset for token in tokens] == [0, 3, 3]


@pytest.mark.parametrize("sent", ["One", None])
def test_without_scores_there_is_text_alone(sent: str | None) -> None:
    tokenizer = WordTokenizer()
    echo = EchoedPrompt(tokenizer, echoed_text(tokenizer, (0,), sent), is_scored=False)
    part = echo.begin()
    assert part.deltas == (ContentDelta(sent or " One"),)
    assert part.tokens == ()


def test_what_is_generated_comes_behind_the_text() -> None:
    echo, tokens = scored((0, 1), "One two")
    assert [token.offset for token in echo.shift(tokens)] == [7, 10]
