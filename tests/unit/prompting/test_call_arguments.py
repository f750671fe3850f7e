from __future__ import annotations

import json

import pytest

from inference.prompting.call_arguments import arguments_object, parse_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ("{}", {}),
        ("", {}),
        ("  \n", {}),
        ("[1]", [1]),
        ("5", 5),
        ("null", None),
        ('"text"', "text"),
        ('{"a": "😸"}', {"a": "😸"}),
    ],
)
def test_json_is_read(text: str, value: object) -> None:
    assert parse_arguments(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "get_weather(Paris)",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\udfff": 1}',
        "[" * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
        "1" * 5000,
        "{} {}",
        "\0",
    ],
)
def test_what_is_no_json_or_could_not_be_written_again_stays_text(text: str) -> None:
    assert parse_arguments(text) == {"_raw": text}
    json.dumps(parse_arguments(text), ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("text", ["[1]", "5", "null", '"text"', "not json"])
def test_who_wants_an_object_gets_one(text: str) -> None:
    assert arguments_object(text) == {"_raw": text}
    assert arguments_object('{"a": 1}') == {"a": 1}
