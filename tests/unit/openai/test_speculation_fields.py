from __future__ import annotations

import json

import pytest

from inference.anthropic.validation import parse_messages_request
from inference.domain.errors import InvalidRequest
from inference.domain.speculation import MAX_DRAFT_TOKENS, SpeculationChoice, SpeculationMode
from inference.openai.responses.validation import parse_response_request
from tests.unit.openai.bodies import chat, chat_refusal, completion, completion_refusal

LOOKUP = {"mode": "prompt_lookup", "max_draft_tokens": 5}
CHOICE = SpeculationChoice(SpeculationMode.PROMPT_LOOKUP, 5)


def test_every_door_reads_it() -> None:
    assert chat(speculation=LOOKUP).speculation == CHOICE
    assert completion(speculation=LOOKUP).speculation == CHOICE
    response = {"model": "m", "input": "Hi", "speculation": LOOKUP}
    assert parse_response_request(json.dumps(response).encode(), strict_fields=True).speculation == CHOICE
    message = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    body = json.dumps({**message, "speculation": LOOKUP}).encode()
    assert parse_messages_request(body, strict_fields=True).speculation == CHOICE


def test_without_it_the_model_decides() -> None:
    assert chat().speculation is None
    assert chat(speculation=None).speculation is None


@pytest.mark.parametrize("mode", list(SpeculationMode))
def test_each_mode_has_its_name(mode: SpeculationMode) -> None:
    assert chat(speculation={"mode": mode.value}).speculation == SpeculationChoice(mode)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("prompt_lookup", "speculation"),
        ([], "speculation"),
        ({}, "speculation.mode"),
        ({"mode": "ngram"}, "speculation.mode"),
        ({"mode": 1}, "speculation.mode"),
        ({"mode": "off", "max_draft_tokens": 0}, "speculation.max_draft_tokens"),
        ({"mode": "off", "max_draft_tokens": MAX_DRAFT_TOKENS + 1}, "speculation.max_draft_tokens"),
        ({"mode": "off", "max_draft_tokens": True}, "speculation.max_draft_tokens"),
        ({"mode": "off", "max_draft_tokens": 2.0}, "speculation.max_draft_tokens"),
        ({"mode": "off", "draft": "x"}, "speculation.draft"),
    ],
)
def test_anything_else_is_refused_by_name(value: object, param: str) -> None:
    for error in (chat_refusal(speculation=value), completion_refusal(speculation=value)):
        assert isinstance(error, InvalidRequest)
        assert error.param == param
        assert error.status == 400
