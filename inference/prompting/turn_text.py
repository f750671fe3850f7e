"""Adding to what a turn says, with nothing else of it lost."""

from __future__ import annotations

from dataclasses import replace

from inference.domain.messages import ChatMessage

BETWEEN = "\n\n"


def with_text_before(message: ChatMessage, text: str) -> ChatMessage:
    """The message with `text` in front of its content, a blank line between them where both are there."""
    return replace(message, content=BETWEEN.join([part for part in (text, message.content) if part]))
