"""What one step computes, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from inference.domain.adapters import AdapterSet
from inference.domain.logprobs import TokenLogprobs
from inference.domain.signals import TokenSignal
from inference.engine.sequence import Sequence, TokenArray
from inference.engine.sequence_media import (
    EmbeddingArray,
    PlaceArray,
    media_run,
    next_position,
    pending_embeddings,
    pending_places,
)

FlagArray = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class PrefillChunk:
    """The next `num_tokens` tokens of a prompt; `is_last` where the first token is drawn after it."""

    sequence: Sequence
    num_tokens: int
    is_last: bool


@dataclass(frozen=True, slots=True, eq=False)
class DraftedDecode:
    """A decoding sequence whose next tokens were guessed: its last token and `token_ids`, never empty, are
    computed at once, and behind each of them the next one can be drawn."""

    sequence: Sequence
    token_ids: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        return 1 + len(self.token_ids)


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """One batch. The four arrays have one row for each token: decodes first, then prefill chunks, or the
    rows of `drafted` sequences, which are in neither of the others.

    `token_ids`, `positions`, `sequence_ids` (int32) and `is_output` (int8: logits wanted) are what
    a runner needs. `outputs` are the sequences whose next token is drawn, in the order of their
    rows: all of `decoding`, then those whose last chunk is in the batch.

    With `embeddings` (float32, one row for each token) these are computed instead of what the ids
    stand for; all of a batch or none of it. Without `is_causal` its tokens see those behind them, too.
    `places` (int32, 4 rows) are theirs in models that have them in a plane, instead of `positions`.
    `adapters` are what all of its sequences want.

    Behind each of its last `num_scored` rows the prompt goes on, and it is asked how likely that was; such a
    batch has one chunk of one prompt, and nothing is drawn.
    """

    token_ids: TokenArray
    positions: TokenArray
    sequence_ids: TokenArray
    is_output: FlagArray
    decoding: tuple[Sequence, ...]
    prefills: tuple[PrefillChunk, ...]
    outputs: tuple[Sequence, ...]
    embeddings: EmbeddingArray | None = None
    is_causal: bool = True
    places: PlaceArray | None = None
    adapters: AdapterSet = ()
    drafted: tuple[DraftedDecode, ...] = ()
    num_scored: int = 0

    @classmethod
    def build(cls, decoding: list[Sequence], prefills: list[PrefillChunk]) -> StepPlan:
        """Lay out the rows. With decodes alone, the usual case, a few list comprehensions do it."""
        num_decodes = len(decoding)
        num_tokens = num_decodes + sum([chunk.num_tokens for chunk in prefills])
        token_ids = np.empty(num_tokens, dtype=np.int32)
        positions = np.empty(num_tokens, dtype=np.int32)
        sequence_ids = np.empty(num_tokens, dtype=np.int32)
        is_output = np.ones(num_tokens, dtype=np.int8)
        if num_decodes:
            token_ids[:num_decodes] = [sequence.last_token_id for sequence in decoding]
            positions[:num_decodes] = [one.num_computed - one.num_saved_positions for one in decoding]
            sequence_ids[:num_decodes] = [sequence.sequence_id for sequence in decoding]
        outputs = decoding
        row = num_decodes
        for chunk in prefills:
            sequence, end = chunk.sequence, row + chunk.num_tokens
            token_ids[row:end] = sequence.pending(chunk.num_tokens)
            begin = next_position(sequence)
            positions[row:end] = np.arange(begin, begin + chunk.num_tokens)
            sequence_ids[row:end] = sequence.sequence_id
            is_output[row:end] = 0
            if chunk.is_last:
                is_output[end - 1] = 1
                outputs = [*outputs, sequence]
            row = end
        sequences = decoding or [chunk.sequence for chunk in prefills]
        return cls(
            token_ids,
            positions,
            sequence_ids,
            is_output,
            tuple(decoding),
            tuple(prefills),
            tuple(outputs),
            adapters=sequences[0].adapters if sequences else (),
        )

    @classmethod
    def build_media(cls, chunks: list[PrefillChunk]) -> StepPlan:
        """A batch of embeddings, each chunk within one run; one that is not causal stands alone."""
        rows = [pending_embeddings(chunk.sequence, chunk.num_tokens) for chunk in chunks]
        runs = [media_run(chunk.sequence) for chunk in chunks]
        places = [pending_places(chunk.sequence, chunk.num_tokens) for chunk in chunks]
        in_plane = [one for one in places if one is not None]
        return replace(
            cls.build([], chunks),
            embeddings=rows[0] if len(rows) == 1 else np.concatenate(rows),
            is_causal=all(run is None or run.is_causal for run in runs),
            places=np.concatenate(in_plane, axis=1) if len(in_plane) == len(chunks) else None,
        )

    @classmethod
    def build_drafted(cls, decoding: list[Sequence], drafted: list[DraftedDecode]) -> StepPlan:
        """A batch of `decoding` sequences, and behind them those with drafts."""
        plain = cls.build(decoding, [])
        tokens = [token_id for one in drafted for token_id in (one.sequence.last_token_id, *one.token_ids)]
        positions = [next_position(one.sequence) + row for one in drafted for row in range(one.num_rows)]
        ids = [one.sequence.sequence_id for one in drafted for _ in range(one.num_rows)]
        return replace(
            plain,
            token_ids=np.concatenate([plain.token_ids, np.array(tokens, dtype=np.int32)]),
            positions=np.concatenate([plain.positions, np.array(positions, dtype=np.int32)]),
            sequence_ids=np.concatenate([plain.sequence_ids, np.array(ids, dtype=np.int32)]),
            is_output=np.ones(len(plain.token_ids) + len(tokens), dtype=np.int8),
            adapters=drafted[0].sequence.adapters,
            drafted=tuple(drafted),
        )

    @classmethod
    def build_scored(cls, sequence: Sequence, max_tokens: int) -> StepPlan:
        """The next tokens of a prompt that is to be scored, up to its last one, whose row is drawn from.
        Computed again after a preemption, it is not scored again."""
        begin = sequence.num_computed
        end = min(begin + max_tokens, sequence.num_prompt_tokens - 1)
        plan = cls.build([], [PrefillChunk(sequence, end - begin, is_last=False)])
        num_scored = max(0, end - max(begin, sequence.num_scored - 1))
        plan.is_output[end - begin - num_scored :] = 1
        return replace(plan, num_scored=num_scored)

    def is_for(self, decoding: list[Sequence]) -> bool:
        """Whether these sequences, and nothing else, are what it computes: then `repeat` will do."""
        return not self.prefills and self.decoding == tuple(decoding)

    def repeat(self) -> StepPlan:
        """The next step of the same decoding sequences, in the same arrays: between two arrivals that
        is every step. What the arrays held before is gone."""
        self.token_ids[:] = [sequence.last_token_id for sequence in self.decoding]
        self.positions[:] = [one.num_computed - one.num_saved_positions for one in self.decoding]
        return self

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_prefill_tokens(self) -> int:
        return sum([chunk.num_tokens for chunk in self.prefills])

    @property
    def num_outputs(self) -> int:
        """Rows of logits: one for each of `outputs`, then all rows of `drafted`; or those that are scored."""
        return len(self.outputs) + self.num_scored + sum([one.num_rows for one in self.drafted])

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        """Everyone who has a part in it."""
        return (
            *self.decoding,
            *(chunk.sequence for chunk in self.prefills),
            *(one.sequence for one in self.drafted),
        )


class StepOutcome(Enum):
    """How a batch went. Only after DONE are there tokens."""

    DONE = "done"
    NO_CELLS = "no cells"
    """There were not enough free cells; nothing was changed."""
    ABORTED = "aborted"
    """Interrupted on the way; the cells tell how far it came."""
    FAILED = "failed"
    """It could not be computed; the cells tell how far it came."""


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """What was drawn behind the last token of a drafted sequence and behind those of its draft, one after
    the other: up to the first that is not the drafted one, ends the answer or fills it up, or could not be
    drawn (NOTHING_DRAWN, the last one then). `forced` alone can follow the last one; they count as drawn.
    `logprobs` are there for each drawn token, forced ones excepted, where the sequence asks for them."""

    token_ids: tuple[int, ...]
    forced: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    is_ended: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """`token_ids[i]` was drawn for `plan.outputs[i]`; NOTHING_DRAWN where its logits were no numbers.

    `logprobs[i]` is there where that sequence asks for them, `signals[i]` where it has a watch. `ended`
    has i where the answer is complete with that: its constraint lets nothing follow. `forced[i]` are
    tokens behind it that alone could follow; they count as drawn, and nothing is known of their logits.
    `runs[j]` came of `plan.drafted[j]`.
    `compute_s` of the time were in the model, the rest went to drawing. Where `is_memory_lost`, the batch
    has taken everybody's cells with it, also of sequences that had no part in it. `scores` are those of the
    tokens behind the scored rows.
    """

    outcome: StepOutcome
    token_ids: tuple[int, ...] | list[int] = ()
    logprobs: Mapping[int, TokenLogprobs] = field(default_factory=dict)
    signals: Mapping[int, TokenSignal] = field(default_factory=dict)
    ended: frozenset[int] = frozenset()
    forced: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    runs: tuple[DrawnRun, ...] = ()
    compute_s: float = 0.0
    is_memory_lost: bool = False
    scores: tuple[TokenLogprobs, ...] = ()


NOTHING_DRAWN = -1
