"""What led to a response, in pages that fit OpenAI's schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from inference.domain.errors import InvalidRequest
from inference.domain.kept_answers import KeptResponse, StoredResponse
from inference.openai.responses.item_list import ItemQuery, item_list_body, parse_item_query, said_items
from inference.openai.responses.validation import parse_response_request

SCHEMAS = json.loads((Path(__file__).parents[3] / "schemas" / "openai.json").read_text())
VALIDATOR = Draft202012Validator({"$ref": "#/components/schemas/ResponseItemList", **SCHEMAS})
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}
SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Looking.", "annotations": [], "logprobs": []}],
}


def kept(name: str, given: Any, *output: Any) -> KeptResponse:
    stored = StoredResponse(f"resp_{name}", "", json.dumps({"output": output}))
    return KeptResponse(stored, json.dumps({"model": "m", "input": given}))


CONVERSATION = [
    kept("a", "Look.", SAID, CALL),
    kept(
        "b",
        [
            {"type": "function_call_output", "call_id": "c1", "output": "7"},
            {"role": "user", "content": [{"type": "input_text", "text": "Well?"}]},
            {"role": "assistant", "content": "It is"},
            {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}", "id": None},
            {"type": "reasoning", "summary": []},
            {
                "role": "user",
                "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}],
            },
        ],
        SAID,
    ),
]


def page(query: ItemQuery) -> Any:
    value = json.loads(item_list_body(CONVERSATION, query))
    VALIDATOR.validate(value)
    return value


def test_all_that_led_to_the_last_response_but_its_own_output() -> None:
    found = page(ItemQuery(limit=100, is_ascending=True))
    assert [item["type"] for item in found["data"]] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
        "function_call",
        "reasoning",
        "message",
    ]
    assert found["data"][1] == SAID and found["data"][2] == CALL
    ids = [item["id"] for item in found["data"]]
    assert len(set(ids)) == len(ids) and all(ids)
    assert ids == [item["id"] for item in page(ItemQuery(limit=100))["data"]][::-1]


@pytest.mark.parametrize("is_ascending", [True, False])
def test_pages_add_up(is_ascending: bool) -> None:
    whole = page(ItemQuery(100, is_ascending))["data"]
    collected: list[Any] = []
    after = None
    while True:
        part = page(ItemQuery(2, is_ascending, after))
        collected += part["data"]
        after = part["last_id"]
        if not part["has_more"]:
            break
    assert collected == whole


def test_an_id_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        page(ItemQuery(after="msg_other"))


def test_the_items_can_be_sent_again() -> None:
    items = said_items(CONVERSATION)
    body = json.dumps({"model": "m", "input": items}).encode()
    again = parse_response_request(body, strict_fields=True)
    assert [turn.role for turn in again.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1000", "limit=-1", "limit=²", "order=x", "&".join("a" * n for n in range(20))]
)
def test_bad_queries(query: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_item_query(query)


def test_queries() -> None:
    assert parse_item_query("") == ItemQuery(20, False, None)
    assert parse_item_query("limit=5&order=asc&after=msg_1&include[]=x") == ItemQuery(5, True, "msg_1")
