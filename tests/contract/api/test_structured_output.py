"""Structured output through the official client, and bombs against the live service."""

import json
import re
import socket
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from tests.contract.api.test_hostile import is_error

Short = Annotated[str, Field(max_length=16)]
ASKED = [{"role": "user", "content": "Invent a person."}]


class Pet(BaseModel):
    name: Short
    kind: Literal["cat", "dog"]


class Person(BaseModel):
    name: Short
    age: Annotated[int, Field(ge=0, le=120)]
    pets: Annotated[list[Pet], Field(max_length=2)]
    motto: Short | None


def test_the_official_client_parses_what_it_asked_for(live):
    client = live.client()

    answer = client.chat.completions.parse(
        model=live.model, messages=ASKED, response_format=Person, max_tokens=300
    )

    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(answer.choices[0].message.parsed, Person)


def test_a_stream_is_the_same(live):
    client = live.client()
    asked = {"model": live.model, "messages": ASKED, "max_tokens": 300, "temperature": 0}

    # Both compute their prompt: sums of llama.cpp depend on how much of it is there.
    whole = client.chat.completions.parse(**asked, response_format=Person, prompt_cache_key="whole")
    with client.chat.completions.stream(**asked, response_format=Person, prompt_cache_key="stream") as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()

    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].message.parsed == whole.choices[0].message.parsed
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("asked", "pattern"),
    [
        ({"structured_outputs": {"choice": ["left", "right"]}}, "left|right"),
        ({"structured_outputs": {"regex": "[A-Z][a-z]{2,8}, \\d{4}"}}, "[A-Z][a-z]{2,8}, [0-9]{4}"),
        ({"structured_outputs": {"grammar": 'start: "<" /[a-z]{1,9}/ ">"'}}, "<[a-z]{1,9}>"),
        ({"json_schema": {"enum": [1, 2, 3]}}, "[123]"),
    ],
)
def test_other_ways_of_saying_it(live, asked, pattern):
    answer = live.chat(**asked, max_tokens=60)
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert re.fullmatch(pattern, choice["message"]["content"])
    assert choice["finish_reason"] == "stop"
    body = {"model": live.model, "prompt": "Once", "max_tokens": 60, **asked}
    assert re.fullmatch(pattern, live.post("/completions", body).json()["choices"][0]["text"])


def test_a_json_object_is_one_or_is_cut_off(live):
    (choice,) = live.chat("JSON please", response_format={"type": "json_object"}, max_tokens=80).json()[
        "choices"
    ]
    text = choice["message"]["content"]
    assert text.startswith("{")
    assert choice["finish_reason"] == "length" or isinstance(json.loads(text), dict)


def schema(value):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": value}}


def nested(depth):
    value = {"type": "string"}
    for _ in range(depth):
        value = {"type": "object", "properties": {"a": value}, "required": ["a"]}
    return value


BOMBS = [
    {"type": "string", "pattern": "^" + "(" * 60_000 + "a" + ")" * 60_000 + "$"},
    {"type": "string", "pattern": "^hello there\\\\!$[("},
    {"type": "string", "pattern": "(?<=x)*y"},
    {"type": "string", "pattern": "^(a{1000}){1000}$"},
    {"type": "array", "uniqueItems": True},
    {"not": {"type": "string"}},
    {"if": {}},
    {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"allOf": [{"type": "integer", "multipleOf": one} for one in (97, 101, 103, 107)]},
    nested(60),
]


@pytest.mark.timeout(240)
def test_bombs_are_refused_and_others_are_served_meanwhile(live):
    for bomb in BOMBS:
        answer = live.chat(response_format=schema(bomb), max_tokens=4)
        is_error(answer, 400)
        assert answer.json()["error"]["param"] == "response_format.json_schema.schema"
        assert live.chat().status_code == 200


def test_a_reference_is_never_fetched(live):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.3)
        reference = {"$ref": f"http://127.0.0.1:{listener.getsockname()[1]}/a.json"}
        is_error(live.chat(response_format=schema(reference)), 400)
        with pytest.raises(TimeoutError):
            listener.accept()
