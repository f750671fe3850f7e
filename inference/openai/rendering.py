"""Answers as OpenAI's clients read them: whole, or chunk by chunk.

A stream writes a chunk for each token of each client; building a dictionary and serialising all of
it every time would cost more than the rest of the event loop's work. All chunks of an answer are
alike but for one string, so everything before and after that string is made once.

Order of a stream: `begin`, `delta`* (or `text_frame`, its quick form for text), `end`. All return whole
events, ready to be sent; `whole` returns the body of an answer that is not streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

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
from inference.domain.timings import Timings
from inference.domain.tools import ToolCall
from inference.openai.logprobs import chat_logprobs, completion_logprobs
from inference.openai.sse import DONE, FRAME_BEGIN, FRAME_END


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every chunk of an answer repeats. `created` is in Unix seconds."""

    id: str
    created: int
    model: str
    fingerprint: str

    def members(self, kind: str) -> dict[str, object]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


def usage_object(usage: Usage) -> dict[str, object]:
    """The schema's CompletionUsage."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def timings_object(timings: Timings) -> dict[str, object]:
    """Milliseconds and tokens by second, under the names that llama.cpp's clients know; of drafts only
    where there were some."""
    members: dict[str, object] = {
        "queue_wait_ms": timings.queue_wait_s * 1000,
        "prompt_n": timings.num_prompt_tokens,
        "prompt_ms": timings.prompt_s * 1000,
        "prompt_per_second": timings.prompt_tokens_per_s,
        "suffix_prefill_n": timings.num_prefilled_tokens,
        "predicted_n": timings.num_predicted_tokens,
        "predicted_ms": timings.predicted_s * 1000,
        "predicted_per_second": timings.predicted_tokens_per_s,
    }
    if timings.num_drafted_tokens:
        members["draft_n"] = timings.num_drafted_tokens
        members["draft_n_accepted"] = timings.num_accepted_tokens
    return members


class _ChunkForm:
    """The fixed bytes around the one string of a text chunk, and the endings of other chunks.

    With usage asked for, every chunk but the last says `"usage": null`; otherwise none has the key.
    """

    def __init__(self, head: AnswerHead, kind: str, before: bytes, after: bytes, wants_usage: bool) -> None:
        opening = orjson.dumps(head.members(kind))[:-1]
        ending = b',"usage":null}' if wants_usage else b"}"
        self._wants_usage = wants_usage
        self._choices = FRAME_BEGIN + opening + b',"choices":'
        self._before = self._choices + b'[{"index":0,' + before
        self._after = after + b"}]" + ending + FRAME_END
        self._ending = ending + FRAME_END

    def text(self, text: str) -> bytes:
        return self._before + orjson.dumps(text) + self._after

    def choice(self, choice: dict[str, object]) -> bytes:
        return self._choices + orjson.dumps([choice]) + self._ending

    def usage(self, result: GenerationResult) -> bytes:
        """The last chunk, where the client asked for it."""
        if not self._wants_usage:
            return b""
        totals = {"usage": usage_object(result.usage), "timings": timings_object(result.timings)}
        return self._choices + b"[]," + orjson.dumps(totals)[1:] + FRAME_END


class ChatRendering:
    """One chat answer, in the shape of chat.completion or chat.completion.chunk.

    `offers_tools`: an answer may be calls alone, so that it has no content until there is some: null,
    as OpenAI has it. Otherwise content is a string from the beginning.
    """

    error_event = None

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        fingerprint: str,
        wants_usage: bool = False,
        wants_logprobs: bool = False,
        offers_tools: bool = False,
    ) -> None:
        self._wants_logprobs = wants_logprobs
        self._no_content = None if offers_tools else ""
        self._head = AnswerHead(id, created, model, fingerprint)
        self._chunks = _ChunkForm(
            self._head,
            "chat.completion.chunk",
            b'"delta":{"content":',
            b'},"logprobs":null,"finish_reason":null',
            wants_usage,
        )

    def begin(self, usage: Usage) -> bytes:
        """The first chunk: it says who speaks, and that the answer has begun."""
        return self._chunk({"role": "assistant", "content": self._no_content, "refusal": None})

    def text_frame(self, text: str) -> bytes:
        return self._chunks.text(text)

    def delta(self, delta: MessageDelta, tokens: Sequence[ScoredToken] = ()) -> bytes:
        match delta:
            case ContentDelta(text):
                return self._chunk({"content": text}, tokens) if tokens else self._chunks.text(text)
            case ReasoningDelta(text):
                return self._chunk({"reasoning_content": text}, tokens)
            case ToolCallBegin(index, call_id, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": call_id, "type": "function", "function": function}
                return self._chunk({"tool_calls": [call]}, tokens)
            case ToolCallArguments(index, text):
                call = {"index": index, "function": {"arguments": text}}
                return self._chunk({"tool_calls": [call]}, tokens)
            case ToolCallEnd():
                return self._chunk({}, tokens) if tokens else b""

    def end(self, result: GenerationResult) -> bytes:
        return self._chunk({}, reason=result.reason) + self._chunks.usage(result)

    def conclude(self) -> bytes:
        return DONE

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        """The body of an answer that is not streamed."""
        said = answer.message
        message: dict[str, object] = {
            "role": "assistant",
            "content": self._no_content if said.content is None else said.content,
            "refusal": None,
        }
        if said.reasoning is not None:
            message["reasoning_content"] = said.reasoning
        if said.tool_calls:
            message["tool_calls"] = [_call_object(call) for call in said.tool_calls]
        logprobs = chat_logprobs(answer.tokens) if self._wants_logprobs else None
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": result.reason.value}
        return _whole(self._head.members("chat.completion"), choice, result)

    def _chunk(
        self,
        delta: dict[str, object],
        tokens: Sequence[ScoredToken] = (),
        reason: FinishReason | None = None,
    ) -> bytes:
        return self._chunks.choice(
            {
                "index": 0,
                "delta": delta,
                "logprobs": chat_logprobs(tokens) if tokens else None,
                "finish_reason": None if reason is None else reason.value,
            }
        )


class CompletionRendering:
    """One completion, in the shape of text_completion: chunks and whole answers share it.

    Nothing is parsed in a completion, so that all of it is text. OpenAI's schema knows no open finish
    reason for chunks; its API and its clients do, as null.
    """

    error_event = None

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        fingerprint: str,
        wants_usage: bool = False,
        wants_logprobs: bool = False,
    ) -> None:
        self._wants_logprobs = wants_logprobs
        self._head = AnswerHead(id, created, model, fingerprint)
        self._chunks = _ChunkForm(
            self._head, "text_completion", b'"text":', b',"logprobs":null,"finish_reason":null', wants_usage
        )

    def begin(self, usage: Usage) -> bytes:
        """A completion's first chunk has text already."""
        return b""

    def text_frame(self, text: str) -> bytes:
        return self._chunks.text(text)

    def delta(self, delta: MessageDelta, tokens: Sequence[ScoredToken] = ()) -> bytes:
        text = delta.text if isinstance(delta, ContentDelta) else ""
        if not tokens:
            return self._chunks.text(text)
        logprobs = completion_logprobs(tokens)
        return self._chunks.choice({"index": 0, "text": text, "logprobs": logprobs, "finish_reason": None})

    def end(self, result: GenerationResult) -> bytes:
        choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": result.reason.value}
        return self._chunks.choice(choice) + self._chunks.usage(result)

    def conclude(self) -> bytes:
        return DONE

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        text = answer.message.content or ""
        logprobs = completion_logprobs(answer.tokens) if self._wants_logprobs else None
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": result.reason.value}
        return _whole(self._head.members("text_completion"), choice, result)


def _call_object(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _whole(members: dict[str, object], choice: dict[str, object], result: GenerationResult) -> bytes:
    members["choices"] = [choice]
    members["usage"] = usage_object(result.usage)
    members["timings"] = timings_object(result.timings)
    return orjson.dumps(members)
