"""One turn of a conversation, as the wire validated it and the chat template will see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "developer", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """`content` is the whole text of the turn: lists of parts are joined before they come here.

    `developer` is kept apart from `system` so that policies see what the caller wrote; the chat
    template gets `system` for both. `content` and `name` are the caller's own text and are never
    trusted; `role` is one of a fixed few words and is.
    """

    role: Role
    content: str
    name: str | None = None
