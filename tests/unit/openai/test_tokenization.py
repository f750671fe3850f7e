"""Bodies of /v1/tokenize and /v1/detokenize, good and bad."""

from __future__ import annotations

import json

import pytest

from inference.domain.errors import InvalidRequest
from inference.openai.prompts import MAX_PROMPT_IDS
from inference.openai.tokenization import (
    DetokenizeRequest,
    TokenizeRequest,
    parse_detokenize_request,
    parse_tokenize_request,
)


def tokenize(*, strict: bool = False, **fields: object) -> TokenizeRequest:
    return parse_tokenize_request(json.dumps(fields).encode(), strict_fields=strict)


def detokenize(**fields: object) -> DetokenizeRequest:
    return parse_detokenize_request(json.dumps(fields).encode(), strict_fields=False)


def test_a_prompt_is_read_as_vllm_reads_it() -> None:
    plain = tokenize(prompt="hi")
    assert (plain.model, plain.prompt, plain.adds_special_tokens, plain.wants_token_strings) == (
        None,
        "hi",
        True,
        False,
    )
    full = tokenize(model="m", prompt="", add_special_tokens=False, return_token_strs=True)
    assert full == TokenizeRequest(model="m", prompt="", adds_special_tokens=False, wants_token_strings=True)


def test_messages_are_read_as_those_of_a_chat() -> None:
    asked = tokenize(messages=[{"role": "user", "content": "hi"}])
    assert asked.conversation is not None
    assert [message.content for message in asked.conversation.messages] == ["hi"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None, "messages": None}, "prompt"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "messages"),
        ({"prompt": ["a"]}, "prompt"),
        ({"prompt": 1}, "prompt"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"prompt": "a", "model": ""}, "model"),
        ({"prompt": "a", "model": 5}, "model"),
        ({"prompt": "a", "return_token_strs": "yes"}, "return_token_strs"),
        ({"prompt": "a", "add_special_tokens": 1}, "add_special_tokens"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        tokenize(**fields)
    assert refusal.value.param == param


def test_unknown_fields_are_named_or_refused() -> None:
    assert tokenize(prompt="a", frobnicate=1).ignored_parameters == ("frobnicate",)
    with pytest.raises(InvalidRequest) as refusal:
        tokenize(strict=True, prompt="a", frobnicate=1)
    assert refusal.value.code == "unknown_parameter"


def test_token_ids_are_read() -> None:
    assert detokenize(model="m", tokens=[0, 5]).token_ids == (0, 5)
    assert detokenize(tokens=[]).token_ids == ()


@pytest.mark.parametrize("tokens", [None, "1", [1.0], [True], [-1], ["1"], [[1]], [0] * (MAX_PROMPT_IDS + 1)])
def test_what_are_no_token_ids_is_refused(tokens: object) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        detokenize(tokens=tokens)
    assert refusal.value.param == "tokens"
