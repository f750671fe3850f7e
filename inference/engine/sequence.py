"""One generation inside the engine: its tokens, how many of them are computed, and its state."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from inference.domain.admission import EventSink, Grant, Submission
from inference.domain.events import PromptScores, Signals, TokenBatch
from inference.domain.logprobs import TokenLogprobs
from inference.domain.requests import GenerationRequest
from inference.domain.signals import TokenSignal
from inference.engine.lanes import Lane
from inference.engine.signals import SignalWatch

TokenArray = NDArray[np.int32]


class SequenceState(Enum):
    """Where a sequence is in its life.

    PREFILLING ──▶ DECODING ──▶ ENDED          every state may end (finish, fail, cancel)
      ▲ │  ▲  │           │
      │ │  │  └─▶ PREEMPTED ◀┘                  it has no cells, its tokens are kept
      │ │  └──────────┘
      │ └─▶ WAITING_FOR_PREFIX                  another one is computing what it begins with
      └──────────┘

    PREFILLING, DECODING, PREEMPTED ◀──▶ HELD  it stands still with what it has

    A held one need not remember where it came from: what it has says where it goes. Without cells it
    waits for room, as a preempted one does; else it computes the rest of what is known. So it may
    lose its cells while it is held, and whoever asks for a state never asks for a flag beside it.
    """

    PREFILLING = "prefilling"
    DECODING = "decoding"
    PREEMPTED = "preempted"
    WAITING_FOR_PREFIX = "waiting for a prefix"
    HELD = "held"
    ENDED = "ended"


# Looked up in every step for every sequence: an enum's attribute is slower than a module's name.
PREFILLING = SequenceState.PREFILLING
DECODING = SequenceState.DECODING
PREEMPTED = SequenceState.PREEMPTED
WAITING_FOR_PREFIX = SequenceState.WAITING_FOR_PREFIX
HELD = SequenceState.HELD
ENDED = SequenceState.ENDED


class InvalidTransition(RuntimeError):
    """A sequence was moved along an edge that does not exist: a fault of the engine itself."""


class Sequence:
    """The one owner of a sequence's state. Used by the engine thread only.

    Its tokens are the prompt, what was generated, and what was injected between. `num_computed` of them
    have their KV in cells; a step computes some of the rest, and where that reaches the last token, the
    next one is drawn.
    So decoding is just prefill with one token left, tokens that a constraint forces or a hook injects are a
    short prefill, and coming back after a preemption is prefill of everything that is known.
    """

    __slots__ = (
        "_behind_prompt",
        "_known",
        "adapters",
        "grant",
        "is_announced",
        "lane",
        "leader",
        "max_tokens",
        "next_place",
        "num_awaited",
        "num_computed",
        "num_injected",
        "num_preemptions",
        "num_promised",
        "num_prompt_tokens",
        "num_saved_positions",
        "num_scored",
        "num_to_restore",
        "order",
        "request",
        "sequence_id",
        "sibling_place",
        "sink",
        "state",
        "submission",
        "watch",
        "withheld",
    )

    def __init__(self, grant: Grant, lane: Lane, *, order: int, sequence_id: int | None = None) -> None:
        submission = grant.submission
        request = submission.request
        self.grant = grant
        self.submission: Submission = submission
        self.request: GenerationRequest = request
        self.sink: EventSink = submission.sink
        self.lane = lane
        # The KV sequence that its cells belong to; where nothing is cached, its lane's number will do.
        self.sequence_id: int = lane.index if sequence_id is None else sequence_id
        self.order = order
        # Whether its owner was told that it has started.
        self.is_announced = False
        # Whom it waits for, and the end of what it waits for; and how far others wait for it.
        self.leader: Sequence | None = None
        self.num_awaited = 0
        self.num_promised = 0
        self.num_prompt_tokens = len(request.prompt_token_ids)
        # By how much the position of a generated token is less than its number.
        self.num_saved_positions = sum([run.num_saved_positions for run in request.media])
        self.max_tokens = request.max_tokens
        self.adapters = request.adapters
        self.watch = None if request.signals is None else SignalWatch(request.signals)
        # While it stands still for signals (injection.py): what was drawn with them, if that still counts.
        self.withheld: tuple[TokenBatch, ...] | None = None
        # How many of the tokens behind its prompt were put in by hooks: they are not generated.
        self.num_injected = 0
        self.num_computed = 0
        # Tokens of the prompt that are known to be as likely as they are, or of which nobody asks that.
        self.num_scored = self.num_prompt_tokens if request.num_prompt_logprobs is None else 1
        self.num_preemptions = 0
        # How many of its tokens will have cells once their state is copied back; until then, or where
        # that ends earlier (then it is 0), it stands still.
        self.num_to_restore = 0
        # A batch is to end at so many of its tokens, where its state is copied (checkpoints.py); 0: none.
        self.next_place = 0
        # And where others wait for all of it (kv_memory.py).
        self.sibling_place = 0
        self.state = PREFILLING
        self._known: TokenArray = np.array(request.prompt_token_ids, dtype=np.int32)
        self._behind_prompt: list[int] = []

    @property
    def num_generated(self) -> int:
        return len(self._behind_prompt) - self.num_injected

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self._behind_prompt)

    @property
    def num_remaining(self) -> int:
        """Tokens that are known and not computed yet; never 0 in a live sequence."""
        return self.num_tokens - self.num_computed

    @property
    def num_text_tokens(self) -> int:
        """How many of its tokens come before the first picture or sound."""
        media = self.request.media
        return media[0].start if media else self.num_tokens

    @property
    def is_scoring(self) -> bool:
        """Somebody asks how likely its prompt is, and not all of that is known."""
        return self.num_scored < self.num_prompt_tokens

    @property
    def max_kept(self) -> int:
        """Tokens whose cells are of use after a step of which nothing came: the logits behind others of them
        are still needed."""
        return (self.num_scored if self.is_scoring else self.num_tokens) - 1

    @property
    def last_token_id(self) -> int:
        """The token that a decoding sequence computes next."""
        return self._behind_prompt[-1]

    def pending(self, num_tokens: int) -> TokenArray:
        """The next `num_tokens` tokens to compute, int32, as a view or a copy."""
        return self.first(self.num_computed + num_tokens)[self.num_computed :]

    def first(self, num_tokens: int) -> TokenArray:
        """Its first `num_tokens` tokens, int32; the array is never changed later."""
        if num_tokens > len(self._known):
            tail = self._behind_prompt[len(self._known) - self.num_prompt_tokens :]
            self._known = np.concatenate([self._known, np.array(tail, dtype=np.int32)])
        return self._known[:num_tokens]

    @property
    def num_left_to_generate(self) -> int:
        return self.max_tokens - self.num_generated

    def known_from(self, begin: int, max_tokens: int) -> SequenceOf[int]:
        """Its tokens from number `begin` on, at most `max_tokens`; its prompt's come by themselves."""
        num_prompt = self.num_prompt_tokens
        if begin >= num_prompt:
            return self._behind_prompt[begin - num_prompt : begin - num_prompt + max_tokens]
        return self.request.prompt_token_ids[begin : begin + max_tokens]

    @property
    def num_until_due(self) -> int:
        """Tokens until somebody gets on: its own remainder, or what others wait for, if that is less."""
        num_due = self.num_promised - self.num_computed
        return min(num_due, self.num_remaining) if num_due > 0 else self.num_remaining

    def adopt(self, num_tokens: int) -> None:
        """Its first `num_tokens` tokens have cells, which another one has computed."""
        self._require(PREFILLING)
        if self.num_computed or not 0 < num_tokens < self.num_tokens:
            raise InvalidTransition(f"{self!r} cannot begin with {num_tokens} tokens of another")
        self.num_computed = num_tokens

    def wait_for(self, leader: Sequence, num_tokens: int) -> None:
        """`leader` is computing its first `num_tokens` tokens: do nothing until they are there."""
        self._require(PREFILLING)
        if self.num_computed or leader.state is not PREFILLING or leader.order >= self.order:
            raise InvalidTransition(f"{self!r} cannot wait for {leader!r}")
        self.leader, self.num_awaited = leader, num_tokens
        leader.promise(num_tokens)
        self.state = WAITING_FOR_PREFIX

    def promise(self, num_tokens: int) -> None:
        """Somebody waits for its first `num_tokens` tokens; what is due first counts."""
        if self.num_promised <= self.num_computed or num_tokens < self.num_promised:
            self.num_promised = num_tokens

    @property
    def has_waited_enough(self) -> bool:
        """What it waits for is there, or will not come from where it was expected."""
        leader = self.leader
        return leader is None or leader.state is not PREFILLING or leader.num_computed >= self.num_awaited

    def stop_waiting(self) -> None:
        self._require(WAITING_FOR_PREFIX)
        self.leader, self.num_awaited = None, 0
        self.state = PREFILLING

    def advance(self, num_tokens: int) -> None:
        """`num_tokens` more tokens have their KV in cells."""
        if not 0 < num_tokens <= self.num_remaining:
            raise InvalidTransition(f"{self!r} cannot advance by {num_tokens}")
        self.num_computed += num_tokens

    def append(self, token_id: int) -> int:
        """A token was drawn after everything known was computed: from now on it decodes. Returns how
        many were generated."""
        known = self._behind_prompt
        if self.num_computed != self.num_prompt_tokens + len(known):
            raise InvalidTransition(f"{self!r} drew a token before all others were computed")
        known.append(token_id)
        self.state = DECODING
        return len(known) - self.num_injected

    def append_forced(self, token_ids: tuple[int, ...]) -> int:
        """These alone could follow the token that was drawn: they are computed with it in one go, as a
        prompt is. Returns how many were generated."""
        self._require(DECODING)
        self._behind_prompt += token_ids
        self.state = self._running_state
        return self.num_generated

    def append_run(self, token_ids: tuple[int, ...], num_computed: int) -> int:
        """These were drawn behind its last token and those of a draft, and so many of them all have their KV
        in cells now. Returns how many were generated. Only one that ends may have nothing left."""
        self._require(DECODING)
        self.num_computed += num_computed
        self._behind_prompt += token_ids
        self.state = self._running_state
        return self.num_generated

    def take_back(self) -> None:
        """The token that was drawn last is thrown away, before anything was computed of it."""
        self._require(HELD)
        if self.num_computed >= self.num_tokens or not self.num_generated:
            raise InvalidTransition(f"{self!r} has no token to take back")
        self._behind_prompt.pop()
        # It may be among those that somebody asked for.
        self._known = self._known[: self.num_tokens]
        if self.watch is not None:
            self.watch.take_back()

    def inject(self, token_ids: tuple[int, ...]) -> None:
        """These follow, which nobody drew; they are computed as a prompt is."""
        self._require(HELD)
        self._behind_prompt += token_ids
        self.num_injected += len(token_ids)

    def score(self, scores: tuple[TokenLogprobs, ...], now_ts: float) -> PromptScores:
        """The next tokens of its prompt are known to be so likely."""
        self.num_scored += len(scores)
        return PromptScores(scores, now_ts)

    def observe(
        self, measured: TokenSignal | None, now_ts: float, *, is_complete: bool = False
    ) -> Signals | None:
        """Its last token was drawn as sure as was `measured`: what is to be told of that. `is_complete`
        where nothing may follow it."""
        if self.watch is None:
            return None
        has_more = not is_complete and self.num_generated < self.max_tokens
        return self.watch.observe(self.last_token_id, measured, now_ts, has_more=has_more)

    def resync(self, num_computed: int) -> None:
        """After a step that was applied in part, believe what the cells hold."""
        self._require(PREFILLING, DECODING)
        if not 0 <= num_computed < self.num_tokens:
            raise InvalidTransition(f"{self!r} cannot have {num_computed} tokens in cells")
        self.num_computed = num_computed
        self.state = self._running_state

    @property
    def _running_state(self) -> SequenceState:
        """What it does where it runs, as its tokens and cells say."""
        return DECODING if self._behind_prompt and self.num_remaining == 1 else PREFILLING

    @property
    def has_given_up_cells(self) -> bool:
        """It has none and will not ask for any before it comes back."""
        return self.state is PREEMPTED or (self.state is HELD and not self.num_computed)

    def preempt(self) -> None:
        """Its cells are gone; tokens, lane and random state stay. A held one stays held."""
        self._require(PREFILLING, DECODING, HELD)
        self.num_computed = self.num_promised = self.num_to_restore = 0
        self.num_preemptions += 1
        if self.state is not HELD:
            self.state = PREEMPTED

    def resume(self) -> None:
        """There is room again: compute everything known once more."""
        self._require(PREEMPTED)
        self.state = PREFILLING

    def hold(self) -> None:
        """Stand still; nobody is to wait for it."""
        self._require(PREFILLING, DECODING, PREEMPTED)
        self.num_promised = self.num_to_restore = 0
        self.state = HELD

    def unhold(self) -> None:
        """Go on from what there is."""
        self._require(HELD)
        self.state = self._running_state if self.num_computed else PREEMPTED

    def end(self) -> None:
        """No step will see it again."""
        self._require(PREFILLING, DECODING, PREEMPTED, WAITING_FOR_PREFIX, HELD)
        self.leader = self.withheld = None
        self.num_to_restore = 0
        self.state = ENDED

    def _require(self, *states: SequenceState) -> None:
        if self.state not in states:
            raise InvalidTransition(f"{self!r} is not in {', '.join(state.value for state in states)}")

    def __repr__(self) -> str:
        return (
            f"<Sequence {self.request.request_id} {self.state.value}, lane {self.lane.index}, "
            f"{self.num_computed} of {self.num_tokens} tokens computed>"
        )
