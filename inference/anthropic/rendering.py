"""Answers as Anthropic's clients read them: one message of blocks, whole or event by event.

Order of a stream: `message_start`, `ping`, for each block `content_block_start`, `content_block_delta`* and
`content_block_stop`, then `message_delta` with the reason of the end and the usage, and `message_stop`.
A block ends where another kind of text begins, so thinking, text and calls keep their order.

Tokens that the prefix cache had are told apart from `input_tokens`, as Anthropic's are: the prompt is the sum
of both. Nothing is ever "created" in that cache at somebody's cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from inference.anthropic.call_input import call_input
from inference.domain.events import FinishReason, Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.logprobs import ScoredToken
from inference.domain.message_deltas import (
    Answer,
    ContentDelta,
    MessageDelta,
    ReasoningDelta,
    ToolCallArguments,
    ToolCallBegin,
    ToolCallEnd,
)
from inference.openai.chunk_form import injected_member
from inference.openai.json_text import json_bytes

_STOP_REASONS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'


class MessageRendering:
    """One answer to POST /v1/messages. Implements the doors' Rendering."""

    error_event = None

    def __init__(self, *, id: str, model: str) -> None:
        self._id = id
        self._model = model
        self._index = -1
        self._kind: str | None = None
        """Of the open block; None where none is."""
        self._text_before = b""

    # -- a stream ---------------------------------------------------------------------------------

    def begin(self, usage: Usage) -> bytes:
        message = self._message([], None, None, usage)
        return _event("message_start", message=message) + _PING

    def delta(self, delta: MessageDelta, tokens: Sequence[ScoredToken] = ()) -> bytes:
        match delta:
            case ContentDelta(text):
                return self.text_frame(text)
            case ReasoningDelta(text):
                opened = self._open("thinking", {"type": "thinking", "thinking": "", "signature": ""})
                return opened + self._delta({"type": "thinking_delta", "thinking": text})
            case ToolCallBegin(_, call_id, name):
                block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
                return self.close_block() + self._open("tool_use", block)
            case ToolCallArguments(_, text):
                return self._delta({"type": "input_json_delta", "partial_json": text})
            case ToolCallEnd():
                return self.close_block()

    def text_frame(self, text: str) -> bytes:
        """The one event of which there are many: all of it but the text is made once for each block."""
        opened = self._open("text", {"type": "text", "text": ""})
        if not text:
            return opened
        return opened + self._text_before + orjson.dumps(text) + b"}}\n\n"

    def end(self, result: GenerationResult) -> bytes:
        reason, stop = _stop(result)
        return self.close_block() + _event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": stop, "stop_details": None},
            usage=_usage_object(result.usage),
        )

    def conclude(self) -> bytes:
        return _MESSAGE_STOP

    def close_block(self) -> bytes:
        """The end of the open block, if there is one."""
        if self._kind is None:
            return b""
        self._kind = None
        return _event("content_block_stop", index=self._index)

    def _open(self, kind: str, block: Mapping[str, object]) -> bytes:
        """Nothing where a block of this kind is open."""
        if self._kind == kind:
            return b""
        closed = self.close_block()
        self._kind = kind
        self._index += 1
        self._text_before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"text_delta","text":' % self._index
        )
        return closed + _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: dict[str, object]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    # -- a whole answer ---------------------------------------------------------------------------

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        reason, stop = _stop(result)
        return json_bytes(self._message(_blocks(answer.deltas), reason, stop, result.usage))

    def _message(
        self, content: list[dict[str, object]], reason: str | None, stop: str | None, usage: Usage
    ) -> dict[str, object]:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "stop_details": None,
            "usage": _usage_object(usage),
        }


def count_body(num_tokens: int) -> bytes:
    """The answer to count_tokens."""
    return orjson.dumps({"input_tokens": num_tokens})


def _event(kind: str, **members: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps({"type": kind, **members}))


def _stop(result: GenerationResult) -> tuple[str, str | None]:
    """Why the answer ended, and the stop sequence that ended it."""
    if result.reason is FinishReason.STOP and result.stop is not None:
        return "stop_sequence", result.stop
    return _STOP_REASONS[result.reason], None


def _usage_object(usage: Usage) -> dict[str, object]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
        **injected_member(usage),
    }


def _blocks(deltas: Sequence[MessageDelta]) -> list[dict[str, object]]:
    """The blocks of a stream of these deltas, in their order."""
    blocks: list[dict[str, object]] = []
    texts: list[str] = []
    kind: type[MessageDelta] | None = None
    for delta in deltas:
        match delta:
            case ContentDelta(text) | ReasoningDelta(text):
                if kind is not type(delta):
                    kind, texts = type(delta), []
                    blocks.append(_text_block(kind, texts))
                texts.append(text)
            case ToolCallBegin(_, call_id, name):
                kind, texts = ToolCallBegin, []
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": texts})
            case ToolCallArguments(_, text):
                texts.append(text)
            case ToolCallEnd():
                kind = None
    return [{name: _joined(name, value) for name, value in block.items()} for block in blocks]


def _text_block(kind: type[MessageDelta], texts: list[str]) -> dict[str, object]:
    if kind is ReasoningDelta:
        return {"type": "thinking", "thinking": texts, "signature": ""}
    return {"type": "text", "text": texts}


def _joined(name: str, value: object) -> object:
    if not isinstance(value, list):
        return value
    return call_input("".join(value)) if name == "input" else "".join(value)
