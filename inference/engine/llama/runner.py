"""Computes the engine's plans with llama.cpp and draws the tokens."""

from __future__ import annotations

import logging
from time import perf_counter

import numpy as np

from inference.domain.adapters import AdapterSet
from inference.domain.logprobs import TokenLogprobs
from inference.domain.requests import GenerationRequest
from inference.domain.signals import TokenSignal
from inference.engine.config import EngineConfig
from inference.engine.host_tier import StateArray
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.context import DecodeStatus, LlamaContext, LogitsArray
from inference.engine.llama.draft_check import draw_runs
from inference.engine.llama.draft_model import LlamaDraftModel
from inference.engine.llama.logprobs import raw_rows, row_scores
from inference.engine.llama.model import LlamaModel
from inference.engine.llama.sampling import Sampler, draw_tokens, take_forced
from inference.engine.llama.signals import SignalMeter
from inference.engine.llama.states import LlamaStates
from inference.engine.load_error import ModelLoadError
from inference.engine.memory_plan import DeviceMemory, together
from inference.engine.plan import NOTHING_DRAWN, DrawnRun, StepOutcome, StepPlan, StepResult
from inference.engine.positions import PositionMap
from inference.engine.sequence import Sequence

logger = logging.getLogger(__name__)

# A long literal is forced piece by piece: others in the batch wait for each.
MAX_FORCED_TOKENS = 32
_PLAIN = PositionMap(())

_OUTCOMES = {
    DecodeStatus.NO_CELLS: StepOutcome.NO_CELLS,
    DecodeStatus.ABORTED: StepOutcome.ABORTED,
}
# Nothing was begun.
_UNCHANGED = frozenset({DecodeStatus.NO_CELLS, DecodeStatus.INVALID})


class LlamaRunner:
    """Implements ModelRunner; belongs to the thread that makes it.

    `close()` frees the context, and the model with it where `owns_model`: nobody else knows when the
    last batch is done. `draft` is a smaller model of the same vocabulary (load_draft); it is always owned.
    """

    def __init__(
        self,
        model: LlamaModel,
        config: EngineConfig,
        *,
        owns_model: bool = True,
        draft: LlamaModel | None = None,
    ) -> None:
        self._model = model
        self._draft_model: LlamaDraftModel | None = None
        self._owns_model = owns_model
        self._samplers: dict[int, Sampler] = {}
        # Sequences whose signals or logprobs somebody wants: mostly none, and then nobody is asked.
        self._watched: set[int] = set()
        self._scored: set[int] = set()
        self._constrained: set[int] = set()
        # Those with pictures in a plane.
        self._maps: dict[int, PositionMap] = {}
        # Those that the context computes with.
        self._adapters: AdapterSet = ()
        # Steady decoding repeats its plan.
        self._last_plan: StepPlan | None = None
        self._last_samplers: list[Sampler] = []
        self._meter = SignalMeter(model.tokenizer.num_tokens)
        self._end_token_ids = model.tokenizer.end_token_ids
        self._end_token_array = np.array(sorted(self._end_token_ids), dtype=np.int64)
        try:
            self._context = LlamaContext(model, config)
        except BaseException:
            if owns_model:
                model.close()
            if draft is not None:
                draft.close()
            raise
        try:
            if draft is not None:
                self._draft_model = LlamaDraftModel(draft, config)
            self._batch = LlamaBatch(
                self._context.max_batch_tokens, embedding_width=self._context.embedding_width
            )
            self._warm_up()
            self._can_share_prefixes = not self._context.keeps_window_only and self._try_partial_removal()
            self._states = LlamaStates(
                self._context, model, config.hardware, can_be_cut=self._can_share_prefixes
            )
        except BaseException:
            self.close()
            raise

    @property
    def num_cells(self) -> int:
        return self._context.num_cells

    @property
    def num_vocabulary(self) -> int:
        return self._model.tokenizer.num_tokens

    @property
    def max_outputs(self) -> int:
        return self._context.max_outputs

    @property
    def end_token_ids(self) -> frozenset[int]:
        return self._end_token_ids

    @property
    def control_token_ids(self) -> frozenset[int]:
        return self._model.tokenizer.control_token_ids

    @property
    def max_sequence_tokens(self) -> int:
        return min(self.num_cells, self._model.trained_context or self.num_cells)

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        own, draft = self._context.memory, self._draft_model
        return own if draft is None else together(own, draft.memory)

    @property
    def draft_model(self) -> LlamaDraftModel | None:
        return self._draft_model

    @property
    def can_share_prefixes(self) -> bool:
        return self._can_share_prefixes

    def open(self, sequence_id: int, request: GenerationRequest) -> None:
        self._model.adapters.check(request.adapters)
        if request.signals is not None:
            self._watched.add(sequence_id)
        if request.num_top_logprobs is not None:
            self._scored.add(sequence_id)
        constraint = None
        if request.constraint is not None:
            constraint = request.constraint.begin()
            self._constrained.add(sequence_id)
        if any(run.grid is not None for run in request.media):
            self._maps[sequence_id] = PositionMap(request.media)
        must_go_on = request.ignore_eos or request.min_tokens > 0
        self._samplers[sequence_id] = Sampler(
            request.sampling,
            prompt_token_ids=tokens_of_text(request),
            pieces=self._model.tokenizer.pieces,
            banned_token_ids=self._end_token_array if must_go_on else None,
            num_banned_draws=None if request.ignore_eos else request.min_tokens,
            constraint=constraint,
        )

    def run(self, plan: StepPlan) -> StepResult:
        begin_s = perf_counter()
        self._prepare(plan)
        status = self._context.decode(self._batch)
        compute_s = perf_counter() - begin_s
        if status is not DecodeStatus.OK:
            if status not in _OUTCOMES:
                logger.error("llama_decode of %d tokens: %s", plan.num_tokens, status.name)
            is_memory_lost = self._context.is_moved_by_batches and status not in _UNCHANGED
            if is_memory_lost:
                self._context.clear(wipes=True)
            return StepResult(
                _OUTCOMES.get(status, StepOutcome.FAILED), compute_s=compute_s, is_memory_lost=is_memory_lost
            )
        if plan.num_scored:
            return StepResult(StepOutcome.DONE, compute_s=compute_s, scores=self._score(plan))
        if not self._batch.num_outputs:
            return StepResult(StepOutcome.DONE, compute_s=compute_s)
        logits = self._context.logits(self._batch.num_outputs)
        runs: tuple[DrawnRun, ...] = ()
        if plan.drafted:
            samplers = [self._samplers[one.sequence.sequence_id] for one in plan.drafted]
            num_plain = len(plan.outputs)
            runs = draw_runs(logits[num_plain:], plan.drafted, samplers, self._end_token_ids, self._force_one)
            logits = logits[:num_plain]
        asked = {}
        if self._scored:
            asked = raw_rows(logits, [sequence.request.num_top_logprobs for sequence in plan.outputs])
        signals = self._measure(plan, logits) if self._watched else {}
        token_ids = draw_tokens(logits, self._last_samplers)
        forced = self._force(plan, token_ids) if self._constrained else {}
        drawn = {row: raw.of(token_ids[row]) for row, raw in asked.items() if token_ids[row] != NOTHING_DRAWN}
        ended = self._ended_rows() if self._constrained else frozenset()
        return StepResult(StepOutcome.DONE, token_ids, drawn, signals, ended, forced, runs, compute_s)

    def _score(self, plan: StepPlan) -> tuple[TokenLogprobs, ...]:
        """How likely the prompt's tokens were behind the scored rows."""
        chunk = plan.prefills[0]
        sequence, end = chunk.sequence, chunk.sequence.num_computed + chunk.num_tokens
        token_ids = sequence.request.prompt_token_ids[end - plan.num_scored + 1 : end + 1]
        logits = self._context.logits(plan.num_scored)
        return row_scores(logits, token_ids, sequence.request.num_prompt_logprobs or 0)

    def _force(self, plan: StepPlan, token_ids: list[int]) -> dict[int, tuple[int, ...]]:
        """What alone can follow the tokens just drawn, where nobody wants to know how likely it was. A row
        whose constraint fails at that has nothing drawn."""
        all_forced = {}
        for row, (sequence, sampler) in enumerate(zip(plan.outputs, self._last_samplers, strict=True)):
            if sequence.sequence_id not in self._constrained or token_ids[row] == NOTHING_DRAWN:
                continue
            forced = self._force_one(sequence, sampler, 1)
            if forced is None:
                token_ids[row] = NOTHING_DRAWN
            elif forced:
                all_forced[row] = forced
        return all_forced

    def _force_one(self, sequence: Sequence, sampler: Sampler, num_drawn: int) -> tuple[int, ...] | None:
        """What alone can follow its last token, of which this step drew `num_drawn`; None: a failure."""
        if sequence.sequence_id in self._scored or sequence.sequence_id in self._watched:
            return ()
        num_left = sequence.num_left_to_generate - num_drawn
        return take_forced(sampler, min(num_left, MAX_FORCED_TOKENS), self._end_token_ids)

    def _ended_rows(self) -> frozenset[int]:
        """Rows after whose token nothing else may come."""
        constraints = [sampler.constraint for sampler in self._last_samplers]
        return frozenset(row for row, one in enumerate(constraints) if one is not None and one.is_ended)

    def _prepare(self, plan: StepPlan) -> None:
        """Fill the batch, and find who draws from it. Both are as they were where a plan is repeated."""
        is_repeated = plan is self._last_plan
        self._batch.fill(plan, is_repeated=is_repeated)
        if not is_repeated:
            if plan.adapters != self._adapters:
                self._context.set_adapters(plan.adapters)
                self._adapters = plan.adapters
            self._last_plan = plan
            self._last_samplers = [self._samplers[sequence.sequence_id] for sequence in plan.outputs]

    def _measure(self, plan: StepPlan, logits: LogitsArray) -> dict[int, TokenSignal]:
        """How sure the model is, where somebody may still want to hear it."""
        watches = [sequence.watch for sequence in plan.outputs]
        rows = [row for row, watch in enumerate(watches) if watch is not None and not watch.is_over]
        return self._meter.measure(logits, rows)

    def inject(self, sequence_id: int, token_ids: tuple[int, ...], *, takes_back: bool) -> None:
        sampler = self._samplers[sequence_id]
        if takes_back:
            sampler.take_back()
        sampler.insert(token_ids)

    def rewind(self, sequence_id: int, max_tokens: int) -> int:
        positions = self._maps.get(sequence_id, _PLAIN)
        last_position = self._context.last_position(sequence_id)
        num_kept = positions.uncut(min(positions.num_tokens(last_position), max_tokens))
        first_removed = positions.position(num_kept)
        if first_removed > last_position:
            return num_kept
        if num_kept > 0 and self._context.remove(sequence_id, first_removed):
            return num_kept
        self._context.remove(sequence_id)
        return 0

    def copy_prefix(self, source_id: int, target_id: int, num_tokens: int) -> bool:
        # Both have the same tokens there, so the same positions.
        num_positions = self._maps.get(target_id, _PLAIN).position(num_tokens)
        if self._context.last_position(source_id) + 1 < num_positions:
            return False
        if not self._context.has_all_before(source_id, num_positions):
            return False
        self._context.copy(source_id, target_id, num_positions)
        if self._context.last_position(target_id) + 1 == num_positions:
            return True
        self._context.remove(target_id)
        return False

    @property
    def num_piece_tokens(self) -> int:
        return self._states.num_piece_tokens

    @property
    def state_origin(self) -> str:
        return self._states.origin

    def save_state(self, sequence_id: int, begin: int, end: int) -> StateArray | None:
        return self._states.save(sequence_id, begin, end)

    def load_state(self, sequence_id: int, begin: int, end: int, data: StateArray) -> bool:
        return self._states.load(sequence_id, begin, end, data)

    def keep_sequence(self, sequence_id: int, num_tokens: int) -> bool:
        is_there = self.rewind(sequence_id, num_tokens) == num_tokens
        self._forget(sequence_id)
        return is_there

    def close_sequence(self, sequence_id: int) -> None:
        self._forget(sequence_id)
        self._context.remove(sequence_id)

    def _forget(self, sequence_id: int) -> None:
        self._samplers.pop(sequence_id, None)
        self._maps.pop(sequence_id, None)
        self._watched.discard(sequence_id)
        self._scored.discard(sequence_id)
        self._constrained.discard(sequence_id)
        self._last_plan, self._last_samplers = None, []

    def _warm_up(self) -> None:
        """Compute one token and forget it: pages of weights are read and buffers made before the
        first request would wait for them."""
        zero = np.zeros(1, dtype=np.int32)
        plan = StepPlan(zero, zero, zero, np.ones(1, dtype=np.int8), (), (), ())
        result = self.run(plan)
        if result.outcome is not StepOutcome.DONE:
            raise ModelLoadError(
                f"The first token of the model could not be computed: {result.outcome.value}."
            )
        self._context.clear()

    def _try_partial_removal(self) -> bool:
        """Ask the memory itself: two tokens, and back to the first. What keeps one state for a whole
        text refuses."""
        plan = StepPlan(
            np.zeros(2, dtype=np.int32),
            np.arange(2, dtype=np.int32),
            np.zeros(2, dtype=np.int32),
            np.array([0, 1], dtype=np.int8),
            (),
            (),
            (),
        )
        is_computed = self.run(plan).outcome is StepOutcome.DONE
        can_remove = is_computed and self._context.remove(0, 1) and self._context.last_position(0) == 0
        self._context.clear()
        return can_remove

    def interrupt(self) -> None:
        self._context.interrupt()
        if self._draft_model is not None:
            self._draft_model.interrupt()

    def close(self) -> None:
        self._samplers.clear()
        if self._draft_model is not None:
            self._draft_model.close()
        self._context.close()
        if self._owns_model:
            self._model.close()

    def __repr__(self) -> str:
        return f"<LlamaRunner of {self._model!r}, {self._context!r}>"


def tokens_of_text(request: GenerationRequest) -> tuple[int, ...]:
    """The prompt without the made-up ids of pictures and sounds: penalties know nothing of them."""
    if not request.media:
        return request.prompt_token_ids
    return tuple([token_id for token_id in request.prompt_token_ids if token_id >= 0])
