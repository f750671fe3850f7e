"""Requests of each wire, as validation makes them."""

from __future__ import annotations

import json
from typing import Any

from inference.anthropic.validation import parse_messages_request
from inference.openai.protocol import ChatRequest, CompletionRequest
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.responses.validation import parse_response_request
from inference.openai.validation import parse_chat_request, parse_completion_request


def chat(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    given = list(messages) or [{"role": "user", "content": "Hi"}]
    return parse_chat_request(_body(messages=given, **fields), strict_fields=True)


def completion(prompt: Any = "Once", **fields: Any) -> CompletionRequest:
    return parse_completion_request(_body(prompt=prompt, **fields), strict_fields=True)


def response(given: Any = "Hi", **fields: Any) -> ResponseRequest:
    return parse_response_request(_body(input=given, **fields), strict_fields=True)


def message(*messages: dict[str, Any], **fields: Any) -> ChatRequest:
    given = list(messages) or [{"role": "user", "content": "Hi"}]
    fields.setdefault("max_tokens", 100)
    return parse_messages_request(_body(messages=given, **fields), strict_fields=True)


def _body(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()
