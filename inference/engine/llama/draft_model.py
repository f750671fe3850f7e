"""A smaller model that says what the larger one will probably say next.

It has a context of its own, with a KV sequence for each lane, and follows the sequences that it drafts for:
what was rejected is taken out again, what it has not read is read first, a part in each step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from time import perf_counter

import numpy as np

from inference.engine.config import EngineConfig
from inference.engine.drafting.draft_model import DraftOrder, draft_config
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.context import DecodeStatus, LlamaContext
from inference.engine.llama.model import LlamaModel
from inference.engine.llama.tokenizer import LlamaTokenizer
from inference.engine.load_error import ModelLoadError
from inference.engine.memory_plan import DeviceMemory
from inference.engine.plan import StepPlan
from inference.engine.sequence import Sequence

logger = logging.getLogger(__name__)

# Of a prompt so much is read in one step, so that those who stream hardly notice.
MAX_READ_AT_ONCE = 128
# How much one measurement counts against those before it.
WEIGHT = 0.2
# Fewer tokens read at once say little about what one of many costs.
MIN_TIMED_TOKENS = 16


class DraftFailed(RuntimeError):
    """The draft model could not compute a batch; the answer goes on without."""


def check_vocabulary(draft: LlamaTokenizer, target: LlamaTokenizer, name: str) -> None:
    """Raise ModelLoadError unless both models mean the same by every token id."""
    if draft.num_tokens != target.num_tokens:
        raise ModelLoadError(
            f"{name} cannot draft: its vocabulary has {draft.num_tokens} tokens, and the model's "
            f"{target.num_tokens}."
        )
    if draft.end_token_ids != target.end_token_ids:
        raise ModelLoadError(f"{name} cannot draft: it ends its answers with other tokens than the model.")
    for token_id, (own, other) in enumerate(zip(draft.pieces, target.pieces, strict=True)):
        if own != other:
            raise ModelLoadError(f"{name} cannot draft: its token {token_id} is not the model's.")


def load_draft(path: Path, target: LlamaModel, config: EngineConfig) -> LlamaModel:
    """The weights of a draft model. Takes as long as a load does; raises ModelLoadError."""
    model = LlamaModel.load(path, draft_config(config))
    try:
        check_vocabulary(model.tokenizer, target.tokenizer, path.name)
    except BaseException:
        model.close()
        raise
    return model


class LlamaDraftModel:
    """Implements DraftModel; made, used and closed by the engine thread, but for `interrupt`. `close()`
    frees the weights, too."""

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        self._model = model
        self._end_token_ids = model.tokenizer.end_token_ids
        # By lane: the tokens that have cells, and how many of them are surely the sequence's own.
        self._held: dict[int, list[int]] = {}
        self._num_known: dict[int, int] = {}
        self.token_s = 0.0
        self.prompt_token_s = 0.0
        try:
            self._context = LlamaContext(model, draft_config(config))
        except BaseException:
            model.close()
            raise
        self._batch = LlamaBatch(self._context.max_batch_tokens)
        try:
            self._try_removal()
        except BaseException:
            self.close()
            raise

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        return self._context.memory

    def num_behind(self, sequence: Sequence) -> int:
        return max(0, sequence.num_tokens - 1 - len(self._held.get(sequence.lane.index, ())))

    def draft(self, orders: SequenceOf[DraftOrder]) -> list[tuple[int, ...]]:
        try:
            return self._draft(orders)
        except BaseException:
            for order in orders:
                self.forget(order.sequence)
            raise

    def _draft(self, orders: SequenceOf[DraftOrder]) -> list[tuple[int, ...]]:
        drafts: list[list[int]] = [[] for _ in orders]
        rows: list[tuple[int, list[int], bool]] = []
        live: list[int] = []
        num_left = min(MAX_READ_AT_ONCE, self._context.max_batch_tokens)
        for index, order in enumerate(orders):
            pending = self._pending(order.sequence, num_left)
            if not pending:
                continue
            num_left -= len(pending)
            lane = order.sequence.lane.index
            is_last = len(self._held[lane]) + len(pending) == order.sequence.num_tokens
            rows.append((lane, pending, is_last))
            if is_last:
                live.append(index)
        depth = 0
        while rows:
            guesses = self._compute(rows)
            if not depth:
                for lane, _, _ in rows:
                    self._num_known[lane] = len(self._held[lane])
            for index, token_id in zip(live, guesses, strict=True):
                drafts[index].append(token_id)
            depth += 1
            live = [
                index
                for index in live
                if len(drafts[index]) < orders[index].num_tokens
                and drafts[index][-1] not in self._end_token_ids
            ]
            rows = [(orders[index].sequence.lane.index, [drafts[index][-1]], True) for index in live]
        return [tuple(draft) for draft in drafts]

    def _pending(self, sequence: Sequence, max_tokens: int) -> list[int]:
        """What it has to read next of a sequence, after what it has read in vain is out again."""
        lane = sequence.lane.index
        held = self._held.setdefault(lane, [])
        num_known = self._num_known.get(lane, 0)
        for own, other in zip(held[num_known:], sequence.known_from(num_known, len(held)), strict=False):
            if own != other:
                break
            num_known += 1
        # The last token is always read again where nothing else is: what comes behind it is asked for.
        num_kept = min(num_known, sequence.num_tokens - 1)
        if num_kept < len(held):
            if not self._context.remove(lane, num_kept):
                self._context.remove(lane)
                num_kept = 0
            del held[num_kept:]
        self._num_known[lane] = num_kept
        pending = list(sequence.known_from(num_kept, max_tokens))
        if len(pending) < max_tokens and num_kept + len(pending) < sequence.num_tokens:
            # The prompt has ended; the answer goes on.
            pending += sequence.known_from(num_kept + len(pending), max_tokens - len(pending))
        return pending

    def _compute(self, rows: list[tuple[int, list[int], bool]]) -> list[int]:
        """Read `rows` (lane, tokens, whether the next token is wanted); the most likely next ones."""
        began_s = perf_counter()
        plan = _plan(rows, self._held)
        self._batch.fill(plan)
        self._batch.num_outputs = num_outputs = int(plan.is_output.sum())
        status = self._context.decode(self._batch)
        if status is not DecodeStatus.OK:
            raise DraftFailed(status.name)
        for lane, tokens, _ in rows:
            self._held[lane] += tokens
        guesses = []
        if num_outputs:
            guesses = self._context.logits(num_outputs).argmax(axis=1).tolist()
        self._time(perf_counter() - began_s, plan.num_tokens, len(rows))
        return guesses

    def _time(self, took_s: float, num_tokens: int, num_lanes: int) -> None:
        if num_tokens >= MIN_TIMED_TOKENS + num_lanes:
            token_s = took_s / num_tokens
            known = self.prompt_token_s or token_s
            self.prompt_token_s = known + WEIGHT * (token_s - known)
        elif num_tokens <= 2 * num_lanes:
            known = self.token_s or took_s
            self.token_s = known + WEIGHT * (min(took_s, 2 * known) - known)

    def forget(self, sequence: Sequence) -> None:
        lane = sequence.lane.index
        self._num_known.pop(lane, None)
        if self._held.pop(lane, None):
            self._context.remove(lane)

    def _try_removal(self) -> None:
        self._held[0] = []
        self._compute([(0, [0, 0], True)])
        can_remove = self._context.remove(0, 1) and self._context.last_position(0) == 0
        self._context.clear()
        self._held[0] = []
        self._compute([(0, [0], True)])
        self._context.clear()
        self._held.clear()
        if not can_remove or self._context.keeps_window_only:
            raise ModelLoadError(
                f"{self._model.path.name} cannot draft: what it has read cannot be taken back in part."
            )

    def interrupt(self) -> None:
        self._context.interrupt()

    def close(self) -> None:
        self._context.close()
        self._model.close()

    def __repr__(self) -> str:
        return f"<LlamaDraftModel {self._model!r}, {len(self._held)} sequences>"


def _plan(rows: list[tuple[int, list[int], bool]], held: dict[int, list[int]]) -> StepPlan:
    tokens = [token_id for _, pending, _ in rows for token_id in pending]
    positions = [len(held[lane]) + place for lane, pending, _ in rows for place in range(len(pending))]
    lanes = [lane for lane, pending, _ in rows for _ in pending]
    outputs = [
        is_last and place == len(pending) - 1 for _, pending, is_last in rows for place in range(len(pending))
    ]
    return StepPlan(
        np.array(tokens, dtype=np.int32),
        np.array(positions, dtype=np.int32),
        np.array(lanes, dtype=np.int32),
        np.array(outputs, dtype=np.int8),
        (),
        (),
        (),
    )
