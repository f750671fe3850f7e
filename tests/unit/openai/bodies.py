"""Request bodies for the tests of the wire."""

from __future__ import annotations

import json

import pytest

from inference.domain.errors import InvalidRequest
from inference.openai.protocol import ChatRequest, CompletionRequest
from inference.openai.validation import parse_chat_request, parse_completion_request


def user(text: object = "Say hi") -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def chat(**fields: object) -> ChatRequest:
    body = {"model": "m", "messages": user(), **fields}
    return parse_chat_request(json.dumps(body).encode(), strict_fields=False)


def completion(**fields: object) -> CompletionRequest:
    body = {"model": "m", "prompt": "Once", **fields}
    return parse_completion_request(json.dumps(body).encode(), strict_fields=False)


def chat_refusal(**fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        chat(**fields)
    return caught.value


def completion_refusal(**fields: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        completion(**fields)
    return caught.value
