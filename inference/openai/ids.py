"""Names of answers. One for each answer: every chunk of a stream carries the same."""

from __future__ import annotations

import uuid


def new_chat_completion_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def new_completion_id() -> str:
    return f"cmpl-{uuid.uuid4().hex}"


def new_message_id() -> str:
    """Of an answer on Anthropic's wire."""
    return f"msg_{uuid.uuid4().hex}"


def new_response_id() -> str:
    return f"resp_{uuid.uuid4().hex}"


def new_item_id(prefix: str) -> str:
    """Of an item of a response: `msg`, `rs` (thinking), `fc` (a call)."""
    return f"{prefix}_{uuid.uuid4().hex}"
