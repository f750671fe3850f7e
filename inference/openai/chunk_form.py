"""What the chunks and the body of an answer have in common, whatever is in its choices.

All text chunks of an answer are alike but for one string, so everything before and after that string is
made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import orjson

from inference.domain.events import Usage
from inference.domain.generation_result import GenerationResult
from inference.domain.timings import Timings
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
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        **injected_member(usage),
    }


def injected_member(usage: Usage) -> dict[str, object]:
    """A member of ours, beside those of every wire's schema: only where policies put tokens in."""
    return {"injected_tokens": usage.injected_tokens} if usage.injected_tokens else {}


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


class ChunkForm:
    """The fixed bytes around the one string of a text chunk, and the endings of other chunks.

    With usage asked for, every chunk but the last says `"usage": null`; otherwise none has the key.
    """

    def __init__(
        self, head: AnswerHead, kind: str, before: bytes, after: bytes, *, wants_usage: bool
    ) -> None:
        opening = orjson.dumps(head.members(kind))[:-1]
        ending = b',"usage":null}' if wants_usage else b"}"
        self._wants_usage = wants_usage
        self._choices = FRAME_BEGIN + opening + b',"choices":'
        self._text = before
        self._before = self._choices + b'[{"index":0,' + before
        self._after = after + b"}]" + ending + FRAME_END
        self._ending = ending + FRAME_END

    def for_choice(self, index: int) -> ChunkForm:
        """The same for another choice of the answer."""
        form = copy(self)
        form._before = self._choices + b'[{"index":%d,' % index + self._text
        return form

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


def whole_body(
    members: dict[str, object], choices: Sequence[dict[str, object]], result: GenerationResult
) -> bytes:
    """An answer that is not streamed, of the `members` of its head."""
    members["choices"] = choices
    members["usage"] = usage_object(result.usage)
    members["timings"] = timings_object(result.timings)
    return orjson.dumps(members)
