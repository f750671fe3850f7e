"""What the engine tells a request's owner, in this order: Started, PromptScores*, then any number of
TokenBatch, Signals TokenBatch, or Signals Injected+ (TokenBatch where none of them took its token away), and
one ending.

An ending is Finished or Failed, and when it comes, lane and cells are free. After `cancel()` the owner
reads nothing more; that the engine has let go as well is what Dropped says to its handle.
A preempted sequence just pauses between two batches. Instants are monotonic seconds taken by the
engine thread; intervals are computed where they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from inference.domain.errors import SkippyError
from inference.domain.logprobs import TokenLogprobs
from inference.domain.signals import SignalWindow, TokenSignal


class FinishReason(Enum):
    """Why a generation ended well, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    """A policy ended it."""


@dataclass(frozen=True, slots=True)
class Started:
    """The sequence was admitted and its prompt is being computed, but for the first
    `num_cached_tokens`, which were there already."""

    at_ts: float
    num_cached_tokens: int = 0


class TokenBatch(NamedTuple):
    """New tokens of this sequence, in order; never an end-of-generation token.

    `logprobs` has one entry for each token where the request asks for them, else none. Where the tokens had
    been guessed (speculation.py), `num_drafted` says how many were, and `num_accepted` how many rightly.
    """

    token_ids: tuple[int, ...]
    at_ts: float
    logprobs: tuple[TokenLogprobs, ...] = ()
    num_drafted: int = 0
    num_accepted: int = 0


@dataclass(frozen=True, slots=True)
class PromptScores:
    """How likely the next tokens of the prompt were, each behind those before it, for those who asked: from
    its second token on, in order and without a gap. Nothing is known of the first one."""

    logprobs: tuple[TokenLogprobs, ...]
    at_ts: float


@dataclass(frozen=True, slots=True)
class Signals:
    """How sure the model was, for those who asked: of the first token, or of the last ones.

    Comes before the batch of the token that it was drawn with, the `num_decoded`th of the answer, so
    that a hook may still decide about that one. Where `is_held`, neither that batch comes nor is anything
    more computed until the handle's `resume(HoldReason.HOOK)`, and tokens may be injected instead of it; an
    answer that ends with this token is not held. Tokens that were injected are not counted.

    `others` are windows beside `signal`, of rules that fired at the same token and count differently.
    """

    signal: TokenSignal | SignalWindow
    num_decoded: int
    is_held: bool
    at_ts: float
    others: tuple[SignalWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Injected:
    """What became of one `inject()`: `num_injected` tokens entered the sequence, and `num_discarded` of the
    answer (the one that the signals came with, once) were thrown away for them. With a `refusal` (one of
    InjectionRefusal) nothing happened. Neither kind of token is in any TokenBatch, or counts as generated.
    """

    num_injected: int
    num_discarded: int
    refusal: str
    at_ts: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The model ended its answer (STOP) or `max_tokens` were generated (LENGTH)."""

    reason: FinishReason
    at_ts: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The sequence could not go on; `error` is what the caller is told."""

    error: SkippyError
    at_ts: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """The sequence was cancelled, and all that it held is free."""

    at_ts: float


Event = Started | PromptScores | Signals | Injected | TokenBatch | Finished | Failed | Dropped


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. Counted where text is made, so a token past a stop is not in it.

    `cached_tokens` are a part of the prompt's, `reasoning_tokens` of the completion's;
    `injected_tokens` were put in by hooks and are in neither.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    injected_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens
