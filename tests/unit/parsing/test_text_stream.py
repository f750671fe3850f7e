from __future__ import annotations

import pytest

from inference.parsing.text_stream import TextDelta, TextStream

EMOJI = "😸".encode()
PIECES = [b"Hel", b"lo", b" wor", b"ld", b"", EMOJI[:2], EMOJI[2:], b"\n"]


def test_tokens_become_text_and_are_counted() -> None:
    stream = TextStream(PIECES)
    assert stream.feed((0, 1)) == TextDelta("Hello", 2, False)
    assert stream.feed(()) == TextDelta("", 0, False)
    assert stream.feed((4, 5)) == TextDelta("", 2, False)
    assert stream.feed((6,)) == TextDelta("😸", 1, False)
    assert stream.finish() == ""


def test_the_token_that_completes_a_stop_counts_and_later_ones_do_not() -> None:
    stream = TextStream(PIECES, ["lo w"])
    assert stream.feed((0, 1, 2, 3, 3)) == TextDelta("Hel", 3, True)
    assert stream.is_stopped
    assert stream.feed((0, 1)) == TextDelta("", 0, True)
    assert stream.finish() == ""


def test_held_text_comes_with_the_end() -> None:
    stream = TextStream(PIECES, ["world!"])
    assert stream.feed((0, 1, 2, 3)) == TextDelta("Hello ", 4, False)
    assert stream.finish() == "world"
    assert stream.finish() == ""


def test_half_a_character_at_the_end_is_one_replacement_mark() -> None:
    stream = TextStream(PIECES, ["zzz"])
    assert stream.feed((0, 5)) == TextDelta("Hel", 2, False)
    assert stream.finish() == "\ufffd"


def test_a_stop_can_be_complete_only_at_the_very_end() -> None:
    stream = TextStream(PIECES, ["o\ufffd"])
    assert stream.feed((1, 5)) == TextDelta("l", 2, False)
    assert stream.finish() == ""


def test_a_stop_may_be_a_text_that_no_token_of_the_answer_has() -> None:
    stream = TextStream(PIECES, ["<|im_end|>"])
    assert stream.feed((0, 1, 4)).text + stream.finish() == "Hello"


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize(
    ("stop", "min_tokens", "text", "num_tokens"),
    [
        ("Hel", 0, "", 1),
        ("Hel", 1, "Hello", 4),
        ("Hel", 3, "Hello", 4),
        ("lo", 2, "HelloHel", 6),
        ("lo", 5, "HelloHel", 6),
        ("lo", 6, "HelloHello", 6),
        ("Hello", 4, "HelloHello", 6),
    ],
)
def test_a_stop_begins_behind_the_tokens_that_the_answer_has_at_least(
    stop: str, min_tokens: int, text: str, num_tokens: int, size: int
) -> None:
    answer = (0, 1, 4, 0, 4, 1)
    for tracks_tokens in (False, True):
        stream = TextStream(PIECES, [stop], tracks_tokens=tracks_tokens, min_tokens=min_tokens)
        got, num_counted = "", 0
        for begin in range(0, len(answer), size):
            delta = stream.feed(answer[begin : begin + size])
            got, num_counted = got + delta.text, num_counted + delta.num_tokens
        assert (got + stream.finish(), num_counted) == (text, num_tokens)
        assert stream.is_stopped is (text != "HelloHello")
