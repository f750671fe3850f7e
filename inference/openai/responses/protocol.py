"""A response that is asked for, once nothing about it can be wrong any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inference.openai.protocol import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseRequest(ChatRequest):
    """POST /v1/responses. To generate it is a chat; the rest is what a response says about itself.

    `is_stored` None leaves it to the key. `echo` are members of the response object that repeat the
    request, as its schema has them.
    """

    instructions: str | None = None
    previous_response_id: str | None = None
    is_stored: bool | None = None
    echo: Mapping[str, Any] = field(default_factory=dict)
