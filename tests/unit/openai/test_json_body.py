from __future__ import annotations

import json

import pytest

from inference.domain.errors import InvalidRequest
from inference.openai.json_body import MAX_NESTING, parse_object


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"1",
        b"true",
        b'{"model":1,}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"a":"\x01"}',
        '{"é":1}'.encode("latin-1"),
        json.dumps({"a": 1}).encode("utf-16"),
        json.dumps({"a": 1}).encode("utf-32-le"),
        b'{"a":1} x',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":-1e400}',
        b'{"a":' + b"9" * 10_000 + b"}",
        b'{"a":01}',
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(body)
    assert caught.value.param is None
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize("escape", ["\\ud83d", "\\uD83D", "\\udc00", "\\ude00\\ud83d"])
@pytest.mark.parametrize(
    "shape",
    [
        '{"a":"x%s"}',
        '{"a":["x",{"b":"%s"}]}',
        '{"%s":1}',
        '{"a":{"b":{"x%sy":null}}}',
        '{"a":{"b":{"c":["%s"]}}}',
    ],
)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(shape: str, escape: str) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        parse_object((shape % escape).encode())


def test_a_whole_surrogate_pair_and_a_spelled_out_escape_are_text() -> None:
    assert parse_object(b'{"a":"\\ud83d\\ude38"}') == {"a": "😸"}
    assert parse_object(b'{"a":"\\\\ud83d"}') == {"a": "\\ud83d"}
    assert parse_object(b'{"a":"a\\u0000b"}') == {"a": "a\0b"}


@pytest.mark.parametrize("body", [b'{"a":1,"a":2}', b'{"a":1,"a":1}', b'{"b":[{"c":{"a":1,"x":2,"a":3}}]}'])
def test_a_repeated_key_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="repeats a key"):
        parse_object(body)


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_nesting_is_bounded() -> None:
    assert parse_object(nested(MAX_NESTING))
    for depth in (MAX_NESTING + 1, MAX_NESTING + 2, 900, 2_000, 1_000_000):
        with pytest.raises(InvalidRequest, match="nested"):
            parse_object(nested(depth))
    with pytest.raises(InvalidRequest):
        parse_object(b'{"a":' * 100_000)


def test_many_brackets_without_depth_are_fine() -> None:
    assert len(parse_object(b'{"a":[' + b"[]," * 5_000 + b"{}]}")["a"]) == 5_001  # type: ignore[arg-type]


def test_the_message_quotes_nothing_of_the_body() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(b'{"secret-word": tru}')
    assert "secret-word" not in caught.value.message
