"""Requests as they are once nothing about them can be wrong any more.

Every value here was checked: ranges, kinds, lengths, text that can be encoded. None means that the
client did not send a field (or sent null), so that a model's own defaults can fill it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from inference.domain.messages import ChatMessage
from inference.domain.requests import SamplingParams

# llama.cpp reads this seed as "draw one at random" (LLAMA_DEFAULT_SEED in llama.h).
_RANDOM_SEED_OF_LLAMA = 0xFFFF_FFFF

MAX_INT32 = 2**31 - 1
# OpenAI's ranges, and llama.cpp's for the two that OpenAI lacks.
RANGES: Mapping[str, tuple[int, int]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (0, MAX_INT32),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}


def fold_seed(seed: int) -> int:
    """OpenAI's seeds are 64 bits wide and signed, the sampler's are 32 bits: same in, same out.

    0 to 2**32 - 2 stand for themselves; others are hashed (CRC-32 of the eight bytes), so that -1
    and 2**40 are seeds of their own too.
    """
    if 0 <= seed < _RANDOM_SEED_OF_LLAMA:
        return seed
    folded = zlib.crc32(seed.to_bytes(8, "little", signed=seed < 0))
    return folded if folded != _RANDOM_SEED_OF_LLAMA else folded - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """What the client said about sampling, and no more."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None

    def resolve(self, defaults: Mapping[str, float]) -> SamplingParams:
        """The client's values over the model's (`ModelDescription.sampling_defaults`) over the
        service's own (SamplingParams). `defaults` is keyed by the fields' names; it comes from a
        model's file, so what is out of range in it does not count."""
        own = SamplingParams()

        def pick(sent: float | None, name: str, fallback: float) -> float:
            if sent is not None:
                return sent
            value = defaults.get(name, fallback)
            low, high = RANGES[name]
            return value if low <= value <= high else fallback

        return SamplingParams(
            temperature=float(pick(self.temperature, "temperature", own.temperature)),
            top_p=float(pick(self.top_p, "top_p", own.top_p)),
            top_k=int(pick(self.top_k, "top_k", own.top_k)),
            min_p=float(pick(self.min_p, "min_p", own.min_p)),
            presence_penalty=float(pick(self.presence_penalty, "presence_penalty", own.presence_penalty)),
            frequency_penalty=float(pick(self.frequency_penalty, "frequency_penalty", own.frequency_penalty)),
            seed=None if self.seed is None else fold_seed(self.seed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """What both endpoints share: how to generate, how far, and how to answer.

    `max_tokens` is None where the service's default applies. `ignored_parameters` names what
    nobody defines, cleaned for use in a header.
    """

    model: str
    sampling: SamplingRequest
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    ignore_eos: bool = False
    is_stream: bool = False
    wants_usage: bool = False
    user: str | None = None
    metadata: Mapping[str, str] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    ignored_parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(OutputRequest):
    """POST /v1/chat/completions. At least one message has text in it."""

    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(OutputRequest):
    """POST /v1/completions. The prompt is text, or token ids that may still lie outside the
    vocabulary (only the model's tokenizer can tell); neither is empty."""

    prompt: str | tuple[int, ...]
