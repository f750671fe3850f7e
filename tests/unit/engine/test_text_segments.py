from __future__ import annotations

import random
import time

import pytest

from inference.engine.llama.text_segments import (
    MAX_WORD_SEGMENT_CHARS,
    WordSegments,
    cut_behind_markers,
    cut_inside,
)

PROSE = "The river runs to the sea, and the sea is not full. " * 3 + "\n\n  Then it rains.\n"


def test_short_text_is_left_alone() -> None:
    assert WordSegments([]).cut("a b c") == ["a b c"]
    assert WordSegments([]).cut("") == [""]


def test_pieces_join_to_the_text_and_are_never_too_long() -> None:
    rng = random.Random(5)
    segments = WordSegments(["<|im_end|>", "a b"], max_chars=64)
    for _ in range(300):
        text = "".join(rng.choices(["word", " ", "\n", "  ", "<|im_end|>", "a b", "ß", "x" * 30], k=80))
        pieces = segments.cut(text)
        assert "".join(pieces) == text
        assert max(map(len, pieces)) <= 64


def test_it_cuts_in_front_of_a_line_first_and_of_a_word_else() -> None:
    lines = WordSegments([], max_chars=40).cut("one two three\nfour five six\nseven eight nine\nten eleven")
    assert all(piece.endswith("\n") for piece in lines[:-1])
    words = WordSegments([], max_chars=40).cut("seven " * 20)
    assert all(piece.startswith(" ") and not piece.endswith(" ") for piece in words[1:-1])


def test_a_run_of_spaces_is_cut_where_words_begin() -> None:
    text = ("word" + " " * 7) * 50
    pieces = WordSegments([], max_chars=60).cut(text)
    assert all(piece.startswith(" w") for piece in pieces[1:])


def test_unbroken_text_is_cut_anyway() -> None:
    pieces = WordSegments([]).cut("a" * 100_000)
    assert max(map(len, pieces)) == MAX_WORD_SEGMENT_CHARS


@pytest.mark.parametrize("special", ["<|im_end|>", "<|two words|>"])
def test_special_texts_stay_whole_wherever_they_lie(special: str) -> None:
    segments = WordSegments([special], max_chars=64)
    for offset in range(90):
        text = "y" * offset + special + "y" * 200
        assert sum(piece.count(special) for piece in segments.cut(text)) == 1, offset


@pytest.mark.parametrize("text", ["a" * 600_000, " " * 600_000, "\n" * 600_000, "a \n" * 200_000])
def test_time_is_linear_whatever_the_text(text: str) -> None:
    begin_s = time.process_time()
    pieces = WordSegments(["<|im_end|>"]).cut(text)
    assert "".join(pieces) == text
    assert time.process_time() - begin_s < 2.0


def test_markers_end_pieces_of_sentencepiece_text() -> None:
    text = "x<b>" * 30
    pieces = cut_behind_markers(text, ["<b>", "<i>"], max_chars=20)
    assert "".join(pieces) == text
    assert len(pieces) > 3
    assert all(piece.endswith("<b>") for piece in pieces)
    assert cut_behind_markers("word " * 30, ["<b>"], max_chars=20) == ["word " * 30]


def test_a_marker_of_spaces_is_not_cut_from_the_spaces_behind_it() -> None:
    text = "x" + "\n\n" + "\n" + "y" * 10 + "\n\n" + "z" * 30
    pieces = cut_behind_markers(text, ["\n\n", "\n\n\n"], max_chars=8)
    assert "".join(pieces) == text
    assert all(not piece.startswith("\n") for piece in pieces)


def test_cut_inside_leaves_no_marker_whole() -> None:
    text = "a<｜User｜>b<｜User｜><｜User｜>c<|tool|>"
    pieces = cut_inside(text, ["<｜User｜>", "<|tool|>"])
    assert "".join(pieces) == text
    assert not any("<｜User｜>" in piece or "<|tool|>" in piece for piece in pieces)
    assert cut_inside("plain", ["<｜User｜>"]) == ["plain"]


def test_ordinary_prose_is_cut_at_lines() -> None:
    pieces = WordSegments([]).cut(PROSE * 200)
    assert len(pieces) > 5
    assert all(piece.endswith("\n") for piece in pieces)
