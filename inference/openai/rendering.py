"""Answers as OpenAI's clients read them: whole, or chunk by chunk.

A stream writes a chunk for each token of each client; building a dictionary and serialising all of
it every time would cost more than the rest of the event loop's work. All chunks of an answer are
alike but for one string, so everything before and after that string is made once.

Order of a stream: `begin`, `delta`* (or `text_frame`, its quick form for text), `end`. All return whole
events, ready to be sent; `whole` returns the body of an answer that is not streamed.

An answer of several choices has a rendering for each (`for_choice`), whose streams end with `finish`; what
is said once of all of them, `totals` or `body`, is for any of them to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

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
from inference.domain.tools import ToolCall
from inference.openai.chunk_form import AnswerHead, ChunkForm, whole_body
from inference.openai.logprobs import chat_logprobs, completion_logprobs
from inference.openai.sse import DONE


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
        self._index = 0
        self._head = AnswerHead(id, created, model, fingerprint)
        self._chunks = ChunkForm(
            self._head,
            "chat.completion.chunk",
            b'"delta":{"content":',
            b'},"logprobs":null,"finish_reason":null',
            wants_usage=wants_usage,
        )

    def for_choice(self, index: int) -> ChatRendering:
        """How another choice of the same answer is written."""
        other = copy(self)
        other._index, other._chunks = index, self._chunks.for_choice(index)
        return other

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
        return self.finish(result) + self.totals(result)

    def finish(self, result: GenerationResult) -> bytes:
        """The last chunk of this choice."""
        return self._chunk({}, reason=result.reason)

    def totals(self, result: GenerationResult) -> bytes:
        """The last chunk of all, where the client asked for it."""
        return self._chunks.usage(result)

    def conclude(self) -> bytes:
        return DONE

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        """The body of an answer that is not streamed."""
        return self.body([self.choice(answer, result)], result)

    def body(self, choices: Sequence[dict[str, object]], result: GenerationResult) -> bytes:
        """The same of several choices; `result` is that of the whole request."""
        return whole_body(self._head.members("chat.completion"), choices, result)

    def choice(self, answer: Answer, result: GenerationResult) -> dict[str, object]:
        """This choice in a body."""
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
        return {
            "index": self._index,
            "message": message,
            "logprobs": logprobs,
            "finish_reason": result.reason.value,
        }

    def _chunk(
        self,
        delta: dict[str, object],
        tokens: Sequence[ScoredToken] = (),
        reason: FinishReason | None = None,
    ) -> bytes:
        return self._chunks.choice(
            {
                "index": self._index,
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
        self._index = 0
        self._head = AnswerHead(id, created, model, fingerprint)
        self._chunks = ChunkForm(
            self._head,
            "text_completion",
            b'"text":',
            b',"logprobs":null,"finish_reason":null',
            wants_usage=wants_usage,
        )

    def for_choice(self, index: int) -> CompletionRendering:
        """How another choice of the same answer is written."""
        other = copy(self)
        other._index, other._chunks = index, self._chunks.for_choice(index)
        return other

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
        return self._chunks.choice(self._choice(text, logprobs, None))

    def end(self, result: GenerationResult) -> bytes:
        return self.finish(result) + self.totals(result)

    def finish(self, result: GenerationResult) -> bytes:
        """The last chunk of this choice."""
        return self._chunks.choice(self._choice("", None, result.reason))

    def totals(self, result: GenerationResult) -> bytes:
        """The last chunk of all, where the client asked for it."""
        return self._chunks.usage(result)

    def conclude(self) -> bytes:
        return DONE

    def whole(self, answer: Answer, result: GenerationResult) -> bytes:
        return self.body([self.choice(answer, result)], result)

    def body(self, choices: Sequence[dict[str, object]], result: GenerationResult) -> bytes:
        """The body of several choices; `result` is that of the whole request."""
        return whole_body(self._head.members("text_completion"), choices, result)

    def choice(self, answer: Answer, result: GenerationResult) -> dict[str, object]:
        """This choice in a body."""
        logprobs = completion_logprobs(answer.tokens) if self._wants_logprobs else None
        return self._choice(answer.message.content or "", logprobs, result.reason)

    def _choice(
        self, text: str, logprobs: dict[str, object] | None, reason: FinishReason | None
    ) -> dict[str, object]:
        return {
            "index": self._index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": None if reason is None else reason.value,
        }


def _call_object(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}
