from __future__ import annotations

import json
from typing import Any

import pytest

from inference.anthropic.validation import parse_messages_request
from inference.domain.adapters import AdapterChoice
from inference.domain.errors import InvalidRequest
from inference.openai.responses.validation import parse_response_request
from inference.openai.validation import parse_chat_request, parse_completion_request

HI = [{"role": "user", "content": "hi"}]
PARSERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "chat": (parse_chat_request, {"messages": HI}),
    "completions": (parse_completion_request, {"prompt": "hi"}),
    "responses": (parse_response_request, {"input": "hi"}),
    "messages": (parse_messages_request, {"messages": HI, "max_tokens": 9}),
}


def read(wire: str, lora: Any) -> Any:
    parse, body = PARSERS[wire]
    return parse(json.dumps({"model": "m", **body, "lora": lora}).encode(), strict_fields=True).adapters


@pytest.mark.parametrize("wire", list(PARSERS))
def test_by_name_or_place_with_a_scale_or_the_adapters_own(wire: str) -> None:
    asked = [{"name": "a", "scale": 0.5}, {"id": 3}, {"name": "b", "id": None, "scale": -2}]
    assert read(wire, asked) == (
        AdapterChoice("a", None, 0.5),
        AdapterChoice(None, 3, None),
        AdapterChoice("b", None, -2.0),
    )
    assert read(wire, []) == ()
    assert read(wire, None) is None


@pytest.mark.parametrize("wire", list(PARSERS))
@pytest.mark.parametrize(
    ("lora", "param"),
    [
        ({"name": "a"}, "lora"),
        ("a", "lora"),
        ([{"name": "a"}] * 9, "lora"),
        (["a"], "lora[0]"),
        ([{}], "lora[0].name"),
        ([{"name": "a", "id": 1}], "lora[0].name"),
        ([{"name": 1}], "lora[0].name"),
        ([{"name": "a" * 101}], "lora[0].name"),
        ([{"id": 0}, {"id": -1}], "lora[1].id"),
        ([{"id": 1.0}], "lora[0].id"),
        ([{"id": True}], "lora[0].id"),
        ([{"id": 0, "scale": 1e308}], "lora[0].scale"),
        ([{"id": 0, "scale": "1"}], "lora[0].scale"),
        ([{"id": 0, "scael": 1}], "lora[0].scael"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(wire: str, lora: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(wire, lora)
    assert refused.value.param == param


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_scales_that_are_no_numbers(number: str) -> None:
    body = f'{{"model": "m", "prompt": "x", "lora": [{{"id": 0, "scale": {number}}}]}}'
    with pytest.raises(InvalidRequest):
        parse_completion_request(body.encode(), strict_fields=True)
