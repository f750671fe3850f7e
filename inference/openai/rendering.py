"""Answers as OpenAI's clients read them: whole, or chunk by chunk.

A stream writes a chunk for each token of each client; building a dictionary and serialising all of
it every time would cost more than the rest of the event loop's work. All chunks of an answer are
alike but for one string, so everything before and after that string is made once.

Order of a stream: `role_chunk`, `text_chunk`*, `finish_chunk`, and where the client asked for usage
`usage_chunk`. All return JSON; sse.frame makes events of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from inference.domain.events import FinishReason, Usage
from inference.domain.logprobs import AnswerPart
from inference.domain.timings import Timings
from inference.openai.logprobs import chat_logprobs, completion_logprobs
from inference.openai.sse import FRAME_BEGIN, FRAME_END


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
    }


def timings_object(timings: Timings) -> dict[str, object]:
    """Milliseconds and tokens by second, under the names that llama.cpp's clients know."""
    return {
        "queue_wait_ms": timings.queue_wait_s * 1000,
        "prompt_n": timings.num_prompt_tokens,
        "prompt_ms": timings.prompt_s * 1000,
        "prompt_per_second": timings.prompt_tokens_per_s,
        "suffix_prefill_n": timings.num_prefilled_tokens,
        "predicted_n": timings.num_predicted_tokens,
        "predicted_ms": timings.predicted_s * 1000,
        "predicted_per_second": timings.predicted_tokens_per_s,
    }


class _ChunkForm:
    """The fixed bytes around the one string of a text chunk, and the endings of other chunks.

    With usage asked for, every chunk but the last says `"usage": null`; otherwise none has the key.
    """

    def __init__(self, head: AnswerHead, kind: str, before: bytes, after: bytes, wants_usage: bool) -> None:
        opening = orjson.dumps(head.members(kind))[:-1]
        ending = b',"usage":null}' if wants_usage else b"}"
        self._choices = opening + b',"choices":'
        self._before = self._choices + b'[{"index":0,' + before
        self._after = after + b"}]" + ending
        self._ending = ending
        self._frame_before = FRAME_BEGIN + self._before
        self._frame_after = self._after + FRAME_END

    def text(self, text: str) -> bytes:
        return self._before + orjson.dumps(text) + self._after

    def text_frame(self, text: str) -> bytes:
        return self._frame_before + orjson.dumps(text) + self._frame_after

    def choice(self, choice: dict[str, object]) -> bytes:
        return self._choices + orjson.dumps([choice]) + self._ending

    def usage(self, usage: Usage, timings: Timings) -> bytes:
        totals = orjson.dumps({"usage": usage_object(usage), "timings": timings_object(timings)})
        return self._choices + b"[]," + totals[1:]


class ChatRendering:
    """One chat answer, in the shape of chat.completion or chat.completion.chunk."""

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
            self._head,
            "chat.completion.chunk",
            b'"delta":{"content":',
            b'},"logprobs":null,"finish_reason":null',
            wants_usage,
        )

    def role_chunk(self) -> bytes:
        """The first chunk: it says who speaks, and that the answer has begun."""
        delta = {"role": "assistant", "content": "", "refusal": None}
        return self._chunks.choice({"index": 0, "delta": delta, "logprobs": None, "finish_reason": None})

    def text_frame(self, text: str) -> bytes:
        return self._chunks.text_frame(text)

    def text_chunk(self, part: AnswerPart) -> bytes:
        if not part.tokens:
            return self._chunks.text(part.text)
        logprobs = chat_logprobs(part.tokens)
        return self._chunks.choice(
            {"index": 0, "delta": {"content": part.text}, "logprobs": logprobs, "finish_reason": None}
        )

    def finish_chunk(self, reason: FinishReason) -> bytes:
        return self._chunks.choice({"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason.value})

    def usage_chunk(self, usage: Usage, timings: Timings) -> bytes:
        return self._chunks.usage(usage, timings)

    def whole(self, answer: AnswerPart, reason: FinishReason, usage: Usage, timings: Timings) -> bytes:
        """The body of an answer that is not streamed."""
        text, logprobs = answer.text, chat_logprobs(answer.tokens) if self._wants_logprobs else None
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason.value}
        return _whole(self._head.members("chat.completion"), choice, usage, timings)


class CompletionRendering:
    """One completion, in the shape of text_completion: chunks and whole answers share it.

    OpenAI's schema knows no open finish reason for chunks; its API and its clients do, as null.
    """

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

    def text_frame(self, text: str) -> bytes:
        return self._chunks.text_frame(text)

    def text_chunk(self, part: AnswerPart) -> bytes:
        if not part.tokens:
            return self._chunks.text(part.text)
        logprobs = completion_logprobs(part.tokens)
        return self._chunks.choice(
            {"index": 0, "text": part.text, "logprobs": logprobs, "finish_reason": None}
        )

    def finish_chunk(self, reason: FinishReason) -> bytes:
        return self._chunks.choice({"index": 0, "text": "", "logprobs": None, "finish_reason": reason.value})

    def usage_chunk(self, usage: Usage, timings: Timings) -> bytes:
        return self._chunks.usage(usage, timings)

    def whole(self, answer: AnswerPart, reason: FinishReason, usage: Usage, timings: Timings) -> bytes:
        text, logprobs = answer.text, completion_logprobs(answer.tokens) if self._wants_logprobs else None
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason.value}
        return _whole(self._head.members("text_completion"), choice, usage, timings)


def _whole(members: dict[str, object], choice: dict[str, object], usage: Usage, timings: Timings) -> bytes:
    members["choices"] = [choice]
    members["usage"] = usage_object(usage)
    members["timings"] = timings_object(timings)
    return orjson.dumps(members)
