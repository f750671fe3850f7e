from __future__ import annotations

import random

import pytest

from inference.parsing.text_stream import TextStream
from inference.parsing.token_spans import TokenSpan

EMOJI = "😸".encode()
PIECES = [b"Hel", b"lo", b" wor", b"ld", b"", EMOJI[:2], EMOJI[2:], b"\n", EMOJI[2:] + b"ab", b"\xff"]


def run(stops: list[str], *batches: tuple[int, ...]) -> list[tuple[str, list[tuple[bytes, int]]]]:
    """What goes out after each batch and at the end: text, and bytes and offset of its tokens."""
    stream = TextStream(PIECES, stops, tracks_tokens=True)
    out = []
    for batch in (*batches, None):
        text = stream.finish() if batch is None else stream.feed(batch).text
        out.append((text, [(span.data, span.offset) for span in stream.take_spans()]))
    return out


def test_each_text_comes_with_its_tokens() -> None:
    assert run([], (0,), (1, 2)) == [
        ("Hel", [(b"Hel", 0)]),
        ("lo wor", [(b"lo", 3), (b" wor", 5)]),
        ("", []),
    ]


def test_text_that_is_held_back_holds_its_tokens_back() -> None:
    assert run(["world!"], (0,), (2,), (3,), (1,)) == [
        ("Hel", [(b"Hel", 0)]),
        ("", []),  # the space is safe, but its token is not
        ("", []),
        (" worldlo", [(b" wor", 3), (b"ld", 7), (b"lo", 9)]),
        ("", []),
    ]


def test_what_a_stop_takes_away_is_not_listed_and_what_it_cuts_is_cut() -> None:
    assert run(["world"], (0, 1, 2), (3, 0)) == [
        ("Hello", [(b"Hel", 0), (b"lo", 3)]),
        (" ", [(b" ", 5)]),
        ("", []),
    ]
    assert run(["lo"], (0, 1)) == [("Hel", [(b"Hel", 0)]), ("", [])]
    assert run(["Hel"], (0, 1)) == [("", []), ("", [])]


def test_a_character_in_two_tokens_comes_with_both() -> None:
    both = [(EMOJI[:2], 0), (EMOJI[2:], 0)]
    assert run([], (5,), (6,)) == [("", []), ("😸", both), ("", [])]
    assert run(["zzz"], (5,), (6,)) == [("", []), ("😸", both), ("", [])]
    assert run(["\n"], (0, 5), (6, 7)) == [
        ("Hel", [(b"Hel", 0)]),
        ("😸", [(EMOJI[:2], 3), (EMOJI[2:], 3)]),
        ("", []),
    ]


def test_a_stop_inside_tokens_of_one_character() -> None:
    assert run(["ab"], (5, 8)) == [("😸", [(EMOJI[:2], 0), (EMOJI[2:], 0)]), ("", [])]
    assert run(["😸"], (0, 5, 8)) == [("Hel", [(b"Hel", 0)]), ("", [])]
    assert run(["b"], (5, 8)) == [("😸a", [(EMOJI[:2], 0), (EMOJI[2:] + b"a", 0)]), ("", [])]


def test_half_a_character_at_the_end_is_listed_with_its_bytes() -> None:
    assert run([], (0, 5)) == [("Hel", [(b"Hel", 0)]), ("\ufffd", [(EMOJI[:2], 3)])]


def test_tokens_without_text_are_listed() -> None:
    assert run(["zzz"], (4, 0, 4)) == [("Hel", [(b"", 0), (b"Hel", 0), (b"", 3)]), ("", [])]


def test_nobody_pays_who_does_not_ask() -> None:
    stream = TextStream(PIECES)
    assert stream.feed((0, 5)).text == "Hel"
    assert stream.take_spans() == []


@pytest.mark.parametrize("seed", range(60))
def test_tokens_and_text_agree_however_they_are_cut(seed: int) -> None:
    chance = random.Random(seed)
    ids = [chance.randrange(len(PIECES)) for _ in range(chance.randrange(1, 25))]
    stops = chance.sample(["lo wor", "world!", "😸", "b", "\n", "H", "ldlo", "\ufffd"], chance.randrange(4))
    plain = TextStream(PIECES, stops)
    tracked = TextStream(PIECES, stops, tracks_tokens=True)
    expected = plain.feed(ids).text + plain.finish()
    texts: list[str] = []
    spans: list[TokenSpan] = []
    rest = list(ids)
    while rest and not tracked.is_stopped:
        size = chance.randrange(1, 4)
        texts.append(tracked.feed(rest[:size]).text)
        del rest[:size]
        spans += tracked.take_spans()
        if not tracked.is_stopped:
            assert b"".join(span.data for span in spans).decode("utf-8", "replace") == "".join(texts)
    texts.append(tracked.finish())
    spans += tracked.take_spans()
    assert "".join(texts) == expected
    assert [span.token_id for span in spans] == ids[: len(spans)]
    if "\ufffd" not in stops and 9 not in ids:
        assert b"".join(span.data for span in spans).decode("utf-8", "replace") == expected
    if not tracked.is_stopped:
        assert len(spans) == len(ids)
