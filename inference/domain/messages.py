"""One turn of a conversation, as the wire validated it and the chat template will see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inference.domain.media import MediaPart
from inference.domain.tools import ToolCall

Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """`content` is the whole text of the turn: lists of parts are joined before they come here. None
    is no content, which no template may render as a word. Where a picture or a sound stands among the
    text, there is the mark of one of `media`.

    `developer` is kept apart from `system` so that policies see what the caller wrote; the chat
    template gets `system` for both. `tool_calls` and `reasoning` are an assistant's, `tool_call_id`
    a tool's. All text is the caller's own and is never trusted; `role` is one of a fixed few words and is.
    """

    role: Role
    content: str | None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    reasoning: str | None = None
    media: tuple[MediaPart, ...] = ()
