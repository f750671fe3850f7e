r"""inference/parsing/argument_text.py: what arguments say, however they are escaped and cut."""

from __future__ import annotations

import json

import pytest

from inference.parsing.argument_text import ArgumentReader, CharKind, ReadCharacter


def read(*pieces: str) -> list[ReadCharacter]:
    reader = ArgumentReader()
    return [*[one for piece in pieces for one in reader.feed(piece)], *reader.finish()]


def text(*pieces: str) -> str:
    return "".join([one.text for one in read(*pieces)])


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (r'{"q":"\u0062lock"}', '{"q":"block"}'),
        (r'{"q":"a\nb\t\"c\\u0062"}', '{"q":"a\nb\t"c\\u0062"}'),
        (r'"\ud83d\ude00!"', '"😀!"'),
        (r'"\uD83D\uDE00!"', '"😀!"'),
        (r'"\ud83dx \ude00 \ud83d\u0062"', '"\ufffdx \ufffd \ufffdb"'),
        (r'"\q \u12 \u00zz"', '"q u12 u00zz"'),
        (r'{"a": 12.5e+3, "b": [true, null]}', '{"a": 12.5e+3, "b": [true, null]}'),
        (r"no json \u0062 at all", r"no json \u0062 at all"),
        ("", ""),
    ],
)
def test_escapes_are_resolved_inside_of_strings(written: str, says: str) -> None:
    assert text(written) == says
    assert text(*written) == says
    assert "".join([one.written for one in read(written)]) == written


@pytest.mark.parametrize("rest", ["\\", r"\u", r"\u0", r"\u006", r"\ud83d", r"\ud83d\ud", r"\ud83d\ude0"])
def test_what_the_end_leaves_unfinished_is_not_lost(rest: str) -> None:
    characters = read('{"a":"b', *rest)
    assert "".join([one.written for one in characters]) == '{"a":"b' + rest


def test_kinds_tell_strings_from_numbers_and_markup() -> None:
    kinds = [one.kind for one in read('{"a\\n": -1, "b": true}')]
    marks = "".join(
        ["s" if kind is CharKind.STRING else "n" if kind is CharKind.SCALAR else "." for kind in kinds]
    )
    assert marks == "..ss...nn...s...nnnn."


def test_long_arguments_are_read_in_linear_time() -> None:
    written = json.dumps({"text": "\u20ac\\\n" * 20_000})
    assert (
        text(*[written[place : place + 3] for place in range(0, len(written), 3)]).count("\u20ac") == 20_000
    )
