"""Answers of the Responses API: one object, or the events by which it comes to be.

Order of a stream: `response.created`, `response.in_progress`; for each item `response.output_item.added`,
for text and thinking `response.content_part.added`, their deltas, the same once more as `….done`, and
`response.output_item.done`; last `response.completed`, or `.incomplete` where `max_output_tokens` or a policy
ended it, or `.failed`. `sequence_number` counts all of them from 0. The last event waits until the response
is recorded and stored, so that whoever has it can go on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from accounts.keys import without_keys
from inference.domain.errors import InvalidRequest, PolicyDenied, SkippyError
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
from inference.domain.requests import SamplingParams
from inference.openai.chunk_form import injected_member
from inference.openai.json_text import json_bytes
from inference.openai.responses.output_items import CallItem, Event, MessageItem, OutputItem, ReasoningItem
from inference.openai.responses.protocol import ResponseRequest
from inference.openai.sse import DONE, FRAME_END

IN_PROGRESS, COMPLETED, INCOMPLETE, FAILED = "in_progress", "completed", "incomplete", "failed"
# Why a response is incomplete, in the schema's words.
_CAUSES = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}


def response_members(
    request: ResponseRequest,
    *,
    id: str,
    created: int,
    model: str,
    sampling: SamplingParams,
    is_stored: bool,
) -> dict[str, Any]:
    """What the object of a response says from its beginning to its end. `sampling` is what applies, the
    model's defaults included."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "model": model,
        "background": False,
        "conversation": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_tokens,
        "max_tool_calls": None,
        "metadata": dict(request.metadata or {}),
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "store": is_stored,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "truncation": "disabled",
        **({} if request.user is None else {"user": request.user}),
        **request.echo,
    }


class ResponseRendering:
    """One response. `members` are those of its object that do not change; `now` tells Unix seconds.
    Implements the doors' Rendering."""

    def __init__(self, *, members: dict[str, Any], now: Callable[[], float]) -> None:
        self._members = members
        self._now = now
        self._number = 0
        self._items: list[OutputItem] = []
        self._is_open = False
        self._statuses: list[str] = []
        self._text_before = b""
        self._text_after = b""
        self._final: dict[str, Any] | None = None

    @property
    def final_object(self) -> dict[str, Any]:
        """The whole response, once it has ended."""
        assert self._final is not None
        return self._final

    # -- a stream ---------------------------------------------------------------------------------

    def begin(self, usage: Usage) -> bytes:
        response = self._object(IN_PROGRESS)
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def delta(self, delta: MessageDelta, tokens: Sequence[ScoredToken] = ()) -> bytes:
        match delta:
            case ContentDelta(text):
                if not tokens:
                    return self.text_frame(text)
                opened, message = self._message()
                return opened + self._item_event(message.add(text, tokens))
            case ReasoningDelta(text):
                last = self._open_item
                opened = b""
                if not isinstance(last, ReasoningItem):
                    last = ReasoningItem()
                    opened = self._open(last)
                return opened + self._item_event(last.add(text))
            case ToolCallBegin(_, call_id, name):
                return self._open(CallItem(call_id, name))
            case ToolCallArguments(_, text):
                call = self._open_item
                assert isinstance(call, CallItem)
                return self._item_event(call.add(text))
            case ToolCallEnd():
                return self._close(COMPLETED)

    def text_frame(self, text: str) -> bytes:
        """The one event of which there are many: all of it but text and number is made once an item."""
        opened, message = self._message()
        if not text:
            return opened
        message.note(text)
        number = self._next_number()
        return opened + b"%b%b%b%d}%b" % (
            self._text_before,
            orjson.dumps(text),
            self._text_after,
            number,
            FRAME_END,
        )

    def end(self, result: GenerationResult) -> bytes:
        cause = _CAUSES.get(result.reason)
        status = COMPLETED if cause is None else INCOMPLETE
        closed = self._close(status)
        self._final = self._object(status, usage=result.usage, cause=cause)
        return closed

    def conclude(self) -> bytes:
        final = self.final_object
        return self._event(f"response.{final['status']}", response=final) + DONE

    def error_event(self, error: SkippyError) -> bytes:
        """A response that has begun fails as one; before that there is only an error to tell."""
        if self._number:
            response = self._object(FAILED, error=error)
            return self._event("response.failed", response=response) + DONE
        return early_error(error)

    # -- a whole answer ---------------------------------------------------------------------------

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        """By the same way as a stream, whose events nobody hears."""
        tokens = answer.tokens
        for delta in answer.deltas:
            self.delta(delta, tokens if isinstance(delta, ContentDelta) else ())
            tokens = () if isinstance(delta, ContentDelta) else tokens
        self.end(result)
        return json_bytes(self.final_object)

    # -- items ------------------------------------------------------------------------------------

    @property
    def _open_item(self) -> OutputItem | None:
        return self._items[-1] if self._is_open else None

    def _message(self) -> tuple[bytes, MessageItem]:
        """The open message, and the events that open it where none was."""
        last = self._open_item
        if isinstance(last, MessageItem):
            return b"", last
        message = MessageItem()
        opened = self._open(message)
        head = {
            "type": "response.output_text.delta",
            "item_id": message.id,
            "output_index": len(self._items) - 1,
            "content_index": 0,
            "logprobs": [],
        }
        self._text_before = b"event: response.output_text.delta\ndata: %b," % orjson.dumps(head)[:-1]
        self._text_before += b'"delta":'
        self._text_after = b',"sequence_number":'
        return opened, message

    def _open(self, item: OutputItem) -> bytes:
        closed = self._close(COMPLETED)
        self._items.append(item)
        self._statuses.append(IN_PROGRESS)
        self._is_open = True
        added: Event = ("response.output_item.added", {"item": item.object(IN_PROGRESS)})
        return closed + b"".join([self._item_event(event) for event in (added, *item.begin())])

    def _close(self, status: str) -> bytes:
        item = self._open_item
        if item is None:
            return b""
        self._statuses[-1] = status
        done: Event = ("response.output_item.done", {"item": item.object(status)})
        frames = b"".join([self._item_event(event) for event in (*item.end(), done)])
        self._is_open = False
        return frames

    # -- events -----------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _item_event(self, event: Event) -> bytes:
        kind, members = event
        return self._event(kind, output_index=len(self._items) - 1, **members)

    def _event(self, kind: str, **members: object) -> bytes:
        body = json_bytes({"type": kind, **members, "sequence_number": self._next_number()})
        return b"event: %b\ndata: %b%b" % (kind.encode(), body, FRAME_END)

    def _object(
        self,
        status: str,
        *,
        usage: Usage | None = None,
        error: SkippyError | None = None,
        cause: str | None = None,
    ) -> dict[str, Any]:
        # What breaks off with the response has not ended by itself.
        shown = [
            item.object(INCOMPLETE if one == IN_PROGRESS else one)
            for item, one in zip(self._items, self._statuses, strict=True)
        ]
        return {
            **self._members,
            "status": status,
            "completed_at": int(self._now()) if status == COMPLETED else None,
            "error": None if error is None else _error_object(error),
            "incomplete_details": None if cause is None else {"reason": cause},
            "output": shown,
            **({} if usage is None else {"usage": _usage_object(usage)}),
        }


def early_error(error: SkippyError) -> bytes:
    """All that a stream says which fails before its response has begun."""
    param = without_keys(error.param) if error.param else None
    members = {"code": error.code, "message": without_keys(error.message), "param": param}
    body = json_bytes({"type": "error", **members, "sequence_number": 0})
    return b"event: error\ndata: %b%b" % (body, FRAME_END) + DONE


def _usage_object(usage: Usage) -> dict[str, Any]:
    """The schema's ResponseUsage. Nothing is written to the prefix cache at somebody's cost."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
        **injected_member(usage),
    }


def _error_object(error: SkippyError) -> dict[str, Any]:
    """The schema's ResponseError, which knows few codes."""
    code = "server_error"
    if error.status == 429:
        code = "rate_limit_exceeded"
    elif isinstance(error, InvalidRequest | PolicyDenied):
        code = "invalid_prompt"
    return {"code": code, "message": without_keys(error.message)}
