"""How each wire reads a request that no client sends just now: one that is tried, or one that was kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inference.anthropic.validation import parse_messages_request
from inference.openai.protocol import OutputRequest
from inference.openai.responses.validation import parse_response_request
from inference.openai.validation import parse_chat_request, parse_completion_request

WIRE_READERS: Mapping[str, Callable[..., OutputRequest]] = {
    "chat.completions": parse_chat_request,
    "completions": parse_completion_request,
    "responses": parse_response_request,
    "messages": parse_messages_request,
}
