"""One generation inside the engine: its tokens, how many of them are computed, and its state."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from inference.domain.admission import EventSink, Grant, Submission
from inference.domain.requests import GenerationRequest
from inference.engine.lanes import Lane

TokenArray = NDArray[np.int32]


class SequenceState(Enum):
    """Where a sequence is in its life.

    PREFILLING ──▶ DECODING ──▶ ENDED          every state may end (finish, fail, cancel)
        ▲  │           │
        │  └─▶ PREEMPTED ◀┘                     its cells are given up, its tokens kept
        └──────────┘
    """

    PREFILLING = "prefilling"
    DECODING = "decoding"
    PREEMPTED = "preempted"
    ENDED = "ended"


# Looked up in every step for every sequence: an enum's attribute is slower than a module's name.
PREFILLING = SequenceState.PREFILLING
DECODING = SequenceState.DECODING
PREEMPTED = SequenceState.PREEMPTED
ENDED = SequenceState.ENDED


class InvalidTransition(RuntimeError):
    """A sequence was moved along an edge that does not exist: a fault of the engine itself."""


class Sequence:
    """The one owner of a sequence's state. Used by the engine thread only.

    Its tokens are the prompt and what was generated. `num_computed` of them have their KV in cells;
    a step computes some of the rest, and where that reaches the last token, the next one is drawn.
    So decoding is just prefill with one token left, and coming back after a preemption is prefill
    of everything that is known.
    """

    __slots__ = (
        "_generated",
        "_known",
        "grant",
        "lane",
        "max_tokens",
        "num_computed",
        "num_preemptions",
        "num_prompt_tokens",
        "order",
        "request",
        "sequence_id",
        "sink",
        "state",
        "submission",
    )

    def __init__(self, grant: Grant, lane: Lane, *, order: int) -> None:
        submission = grant.submission
        request = submission.request
        self.grant = grant
        self.submission: Submission = submission
        self.request: GenerationRequest = request
        self.sink: EventSink = submission.sink
        self.lane = lane
        # Without shared prefixes a lane needs exactly one KV sequence: its own number.
        self.sequence_id: int = lane.index
        self.order = order
        self.num_prompt_tokens = len(request.prompt_token_ids)
        self.max_tokens = request.max_tokens
        self.num_computed = 0
        self.num_preemptions = 0
        self.state = PREFILLING
        self._known: TokenArray = np.array(request.prompt_token_ids, dtype=np.int32)
        self._generated: list[int] = []

    @property
    def num_generated(self) -> int:
        return len(self._generated)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self._generated)

    @property
    def num_remaining(self) -> int:
        """Tokens that are known and not computed yet; never 0 in a live sequence."""
        return self.num_tokens - self.num_computed

    @property
    def last_token_id(self) -> int:
        """The token that a decoding sequence computes next."""
        return self._generated[-1]

    def pending(self, num_tokens: int) -> TokenArray:
        """The next `num_tokens` tokens to compute, int32, as a view or a copy."""
        end = self.num_computed + num_tokens
        if end > len(self._known):
            tail = self._generated[len(self._known) - self.num_prompt_tokens :]
            self._known = np.concatenate([self._known, np.array(tail, dtype=np.int32)])
        return self._known[self.num_computed : end]

    def advance(self, num_tokens: int) -> None:
        """`num_tokens` more tokens have their KV in cells."""
        if not 0 < num_tokens <= self.num_remaining:
            raise InvalidTransition(f"{self!r} cannot advance by {num_tokens}")
        self.num_computed += num_tokens

    def append(self, token_id: int) -> None:
        """A token was drawn after everything known was computed: from now on it decodes."""
        if self.num_computed != self.num_prompt_tokens + len(self._generated):
            raise InvalidTransition(f"{self!r} drew a token before all others were computed")
        self._generated.append(token_id)
        self.state = DECODING

    def resync(self, num_computed: int) -> None:
        """After a step that was applied in part, believe what the cells hold."""
        self._require(PREFILLING, DECODING)
        if not 0 <= num_computed < self.num_tokens:
            raise InvalidTransition(f"{self!r} cannot have {num_computed} tokens in cells")
        self.num_computed = num_computed
        has_one_left = self.num_generated > 0 and self.num_remaining == 1
        self.state = DECODING if has_one_left else PREFILLING

    def preempt(self) -> None:
        """Its cells are gone; tokens, lane and random state stay."""
        self._require(PREFILLING, DECODING)
        self.num_computed = 0
        self.num_preemptions += 1
        self.state = PREEMPTED

    def resume(self) -> None:
        """There is room again: compute everything known once more."""
        self._require(PREEMPTED)
        self.state = PREFILLING

    def end(self) -> None:
        """No step will see it again."""
        self._require(PREFILLING, DECODING, PREEMPTED)
        self.state = ENDED

    def _require(self, *states: SequenceState) -> None:
        if self.state not in states:
            raise InvalidTransition(f"{self!r} is not in {', '.join(state.value for state in states)}")

    def __repr__(self) -> str:
        return (
            f"<Sequence {self.request.request_id} {self.state.value}, lane {self.sequence_id}, "
            f"{self.num_computed} of {self.num_tokens} tokens computed>"
        )
