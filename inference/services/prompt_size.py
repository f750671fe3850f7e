"""How large a prompt will about be, before it costs anything: for refusing where there is no room."""

from __future__ import annotations

import json

from inference.domain.conversation import Conversation
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolSpec
from inference.prompting.text_size import text_bytes

# What a chat template may write around one message, call or tool: the estimate leans to the large side.
TEMPLATE_BYTES = 256


def conversation_bytes(conversation: Conversation) -> int:
    """All that a template may write, in bytes of UTF-8."""
    num_bytes = sum(_message_bytes(message) for message in conversation.messages)
    return num_bytes + sum(_tool_bytes(tool) for tool in conversation.tool_use.tools)


def _message_bytes(message: ChatMessage) -> int:
    texts = [message.content or "", message.reasoning or "", message.name or ""]
    for call in message.tool_calls:
        texts += (call.name, call.arguments)
    return sum(map(text_bytes, texts)) + TEMPLATE_BYTES * (1 + len(message.tool_calls))


def _tool_bytes(tool: ToolSpec) -> int:
    schema = json.dumps(tool.parameters, ensure_ascii=False) if tool.parameters else ""
    return len(tool.name) + text_bytes(tool.description) + text_bytes(schema) + TEMPLATE_BYTES
