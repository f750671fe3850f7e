from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.parsing.formats.json_scanner import MAX_DEPTH, JsonScanner, StringDecoder

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


def scan(*texts: str) -> tuple[JsonScanner, str, str]:
    """The scanner, what it read, and what it left."""
    scanner, pieces, rest = JsonScanner(), [], ""
    for text in texts:
        end = scanner.scan(text, 0, pieces)
        rest = text[end:]
    scanner.finish()
    return scanner, "".join(pieces), rest


@given(JSON, st.booleans(), st.integers(0, 2), st.lists(st.integers(0, 500), max_size=5))
def test_json_is_read_to_its_end_however_it_is_cut(
    value: object, is_ascii: bool, indent: int, cuts: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent or None)
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    scanner, read, rest = scan(*[text[begin:end] for begin, end in pairwise(places)])
    assert scanner.is_complete
    assert (read, rest) == (text, "")


@given(st.text(alphabet='{}[]":,0123456789.-+eEtrufalsn\\ \n"', max_size=30))
def test_what_is_no_json_is_not_complete(text: str) -> None:
    scanner, read, rest = scan(text)
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text.lstrip(" \n"))
    except ValueError:
        end = None
    if scanner.is_complete:
        assert end is not None
        json.loads(read)
    elif end is not None:
        # A number is read as far as its characters go: 1-2 is none.
        assert text.lstrip(" \n")[end : end + 1] in tuple("0123456789.-+eE") + tuple(
            "abcdefghijklmnopqrstuvwxyz"
        )
    assert len(rest) <= len(text)


def test_control_characters_in_strings_are_escaped() -> None:
    scanner, read, _ = scan('{"a": "x\n\ty"}')
    assert scanner.is_complete
    assert json.loads(read) == {"a": "x\n\ty"}


@pytest.mark.parametrize(
    "text",
    [
        "{,",
        "[,",
        '{"a"}',
        '{"a":}',
        '{"a": 1,}',
        "[1,]",
        "01",
        "1.",
        "nul",
        "truex",
        '"\\x"',
        '"\\u12g4"',
        "}",
    ],
)
def test_what_cannot_go_on_is_invalid_at_once(text: str) -> None:
    scanner, _, _ = scan(text + " ")
    assert scanner.is_invalid
    assert not scanner.is_complete


def test_depth_and_numbers_are_bounded() -> None:
    assert scan("[" * (MAX_DEPTH + 1))[0].is_invalid
    assert scan("[" * MAX_DEPTH + "]" * MAX_DEPTH)[0].is_complete
    assert scan("1" * 10_000)[0].is_invalid


@given(st.text(st.characters(codec="utf-8")), st.booleans(), st.lists(st.integers(0, 100), max_size=6))
def test_strings_are_decoded_while_they_come(text: str, is_ascii: bool, cuts: list[int]) -> None:
    raw = json.dumps(text, ensure_ascii=is_ascii)
    places = sorted({0, len(raw), *(1 + cut % len(raw) for cut in cuts)})
    decoder = StringDecoder()
    pieces = [decoder.push(raw[begin:end]) for begin, end in pairwise(places)]
    assert "".join(pieces) == text


@pytest.mark.parametrize("raw", ['"\\ud83d"', '"\\ud83dx"', '"\\ude00"', '"\\ud83d\\n"'])
def test_half_a_character_becomes_a_replacement_mark(raw: str) -> None:
    decoder = StringDecoder()
    text = "".join([decoder.push(char) for char in raw])
    assert text.startswith("\ufffd")
    text.encode()
