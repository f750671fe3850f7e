"""Texts that begin alike, for models whose memory of a text cannot be cut: where it may be gone on from.

A recurrent state, or one with layers that keep a sliding window only, is good for exactly the tokens that
it was made of: of a beginning of them nothing can be had. So states are copied at places where other
prompts will go on from, and a prompt that begins with all tokens of one of them takes it back.

    the last prompt's own beginning that others have, too  (a system prompt)
    the end of what was said, before the template begins the answer  (GenerationRequest.prefix_boundary)
    near the end of the prompt, where that is not known  (the same prompt again)
    the end of the answer, or where a sequence was preempted
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.engine.config import EngineConfig
from inference.engine.copy_budget import CopyBudget, CopyKind
from inference.engine.copy_counts import CopyCounts
from inference.engine.host_tier import HostTier, StatePiece
from inference.engine.model_runner import ModelRunner
from inference.engine.piece_keys import PieceKeys
from inference.engine.radix_tree import RadixTree
from inference.engine.sequence import Sequence, TokenArray

logger = logging.getLogger(__name__)

# Templates begin an answer with a few tokens, and the last one of a prompt is always computed.
TAIL_TOKENS = 4
# Each place cuts a batch in two and costs a copy: nearer ones are not worth it.
MIN_DISTANCE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of the first `num_tokens` tokens of a prompt, under `key`."""

    key: bytes
    num_tokens: int


class Checkpoints:
    """Belongs to the engine thread; `statistics` is for all.

    What is kept is found by its tokens, which are therefore kept, too, in memory only. Whatever goes
    wrong, a prompt is just computed. Beside streams, a state whose copy would take longer than a step
    allows is neither made nor taken back.
    """

    def __init__(
        self,
        runner: ModelRunner,
        config: EngineConfig,
        *,
        keys: PieceKeys,
        budget: CopyBudget,
        now_ts: Callable[[], float],
    ) -> None:
        self.is_enabled = (
            config.has_prefix_cache and config.host_cache_bytes > 0 and not runner.can_share_prefixes
        )
        self._runner = runner
        self._min_tokens = config.min_cached_tokens
        self._keys = keys
        self._budget = budget
        self._now_ts = now_ts
        max_bytes = config.host_cache_bytes if self.is_enabled else 0
        self._tier = HostTier(max_bytes, now_ts=now_ts, on_leave=self._forget)
        self._tree = RadixTree()
        self._known: dict[int, Checkpoint] = {}
        self._holders: dict[bytes, int] = {}
        self._num_made = 0
        # Places to come, in order, and what is to be taken back.
        self._places: dict[Sequence, list[int]] = {}
        self._restoring: dict[Sequence, Checkpoint] = {}
        self._last_bytes = 0
        self._counts = CopyCounts()

    @property
    def statistics(self) -> ColdPrefixStatistics:
        return self._counts.statistics(self._tier)

    @property
    def is_busy(self) -> bool:
        """Something was copied since the step began, or is still to be."""
        return self._budget.has_copied or bool(self._restoring)

    # -- into the memory ------------------------------------------------------------------------

    def begin(self, sequence: Sequence) -> bool:
        """Choose where states of a sequence are to be copied, and which one it takes back: from the next
        step on. False where there is none."""
        if not self.is_enabled:
            return False
        num_text = sequence.num_text_tokens
        tokens = sequence.first(num_text)
        namespace = sequence.request.cache_namespace
        found = None if sequence.num_computed else self._find(namespace, tokens, sequence.num_tokens - 1)
        begin = found.num_tokens if found is not None else sequence.num_computed
        self._places[sequence] = self._choose_places(sequence, tokens, begin)
        self._set_next_place(sequence)
        if found is None:
            return False
        sequence.num_to_restore = found.num_tokens
        self._restoring[sequence] = found
        self._tier.use([found.key], sequence.request.cache_retention)
        return True

    def _find(self, namespace: str, tokens: TokenArray, most: int) -> Checkpoint | None:
        """The longest one that is a beginning of these tokens, of `most` tokens at most."""
        best: Checkpoint | None = None
        for overlap in self._tree.overlaps(namespace, tokens):
            if best is not None and overlap.num_tokens <= best.num_tokens:
                break
            for holder in overlap.holders:
                one = self._known[holder]
                is_longer = best is None or one.num_tokens > best.num_tokens
                if is_longer and one.num_tokens <= min(overlap.num_tokens, most):
                    best = one
        return best

    def _choose_places(self, sequence: Sequence, tokens: TokenArray, begin: int) -> list[int]:
        """Where this prompt's states are copied, behind `begin`, in order."""
        overlaps = self._tree.overlaps(sequence.request.cache_namespace, tokens)
        boundary = sequence.request.prefix_boundary
        last = sequence.num_prompt_tokens - 1
        end = boundary if 0 < boundary <= last else last - TAIL_TOKENS
        places: list[int] = []
        for place in (overlaps[0].num_tokens if overlaps else 0, end):
            nearest = max([begin, *places])
            if place >= self._min_tokens and nearest + MIN_DISTANCE_TOKENS <= place <= len(tokens):
                places.append(place)
        return places

    def restore(
        self, *, make_room: Callable[[int], bool], grow: Callable[[int, int], None]
    ) -> list[Sequence]:
        """Take back what was found, as far as the step's time allows, the oldest first. Returns those who
        need not wait any longer. `make_room`, `grow`: as in ColdPrefixes."""
        done: list[Sequence] = []
        for sequence, found in list(self._restoring.items()):
            if not sequence.num_to_restore:  # it was held, preempted or ended
                del self._restoring[sequence]
                continue
            if not self._budget.allows(CopyKind.RESTORE, self._last_bytes, sequence):
                continue
            if make_room(found.num_tokens) and self._restore(sequence, found):
                sequence.advance(found.num_tokens)
                grow(sequence.sequence_id, found.num_tokens)
            del self._restoring[sequence]
            sequence.num_to_restore = 0
            done.append(sequence)
        return done

    def _restore(self, sequence: Sequence, found: Checkpoint) -> bool:
        begin_ts = self._now_ts()
        data = self._tier.get(found.key)
        if data is None:
            self._forget_key(found.key)
            return False
        try:
            is_restored = self._runner.load_state(sequence.sequence_id, 0, found.num_tokens, data)
        except Exception:
            logger.exception("The state of a prefix could not be restored")
            self._runner.rewind(sequence.sequence_id, 0)
            is_restored = False
        elapsed_s = self._budget.spend(CopyKind.RESTORE, len(data), begin_ts)
        if not is_restored:
            self._tier.drop(found.key)
            self._forget_key(found.key)
            self._counts.failed()
            return False
        self._counts.num_restores += 1
        self._counts.restored(found.num_tokens, elapsed_s)
        return True

    # -- out of the memory ----------------------------------------------------------------------

    def save_where_due(self) -> None:
        """Copy the states of those that stand at one of their places, before they go on."""
        for sequence, places in list(self._places.items()):
            while places and places[0] < sequence.num_computed:
                del places[0]
            if places and places[0] == sequence.num_computed:
                self._save(sequence)
                del places[0]
            self._set_next_place(sequence)
            if not places:
                del self._places[sequence]

    def leave(self, sequence: Sequence) -> None:
        """The memory of a sequence is about to be freed: it ended, or was preempted."""
        self._places.pop(sequence, None)
        sequence.next_place = 0
        self._save(sequence)

    def drop(self, sequence: Sequence) -> None:
        """It ended in a way after which nobody knows what is in its memory."""
        self._places.pop(sequence, None)

    def _set_next_place(self, sequence: Sequence) -> None:
        places = self._places[sequence]
        sequence.next_place = places[0] if places else 0

    def _save(self, sequence: Sequence) -> None:
        num_tokens = sequence.num_computed
        if not self.is_enabled or not self._min_tokens <= num_tokens <= sequence.num_text_tokens:
            return
        namespace, tokens = sequence.request.cache_namespace, sequence.first(num_tokens)
        key = self._keys.whole(namespace, tokens)
        if key not in self._tier:
            if not self._budget.allows(CopyKind.SAVE, self._last_bytes, sequence):
                return
            if not self._save_as(sequence, key, num_tokens):
                return
            self._num_made += 1
            self._known[self._num_made] = Checkpoint(key, num_tokens)
            self._holders[key] = self._num_made
            self._tree.insert(self._num_made, namespace, tokens)
        self._tier.use([key], sequence.request.cache_retention)

    def _save_as(self, sequence: Sequence, key: bytes, num_tokens: int) -> bool:
        begin_ts = self._now_ts()
        try:
            data = self._runner.save_state(sequence.sequence_id, 0, num_tokens)
        except Exception:
            logger.exception("The state of a prefix could not be saved")
            data = None
        is_kept = data is not None and self._tier.put(key, data, sequence.request.cache_retention)
        size = self._last_bytes if data is None else len(data)
        elapsed_s = self._budget.spend(CopyKind.SAVE, size, begin_ts)
        if data is None:
            self._counts.failed()
        else:
            self._last_bytes = size
        if is_kept:
            self._counts.saved(num_tokens, elapsed_s)
        return is_kept

    def _forget(self, piece: StatePiece) -> None:
        self._forget_key(piece.key)

    def _forget_key(self, key: bytes) -> None:
        holder = self._holders.pop(key, None)
        if holder is not None:  # it may have given way to another since it was found
            del self._known[holder]
            self._tree.remove(holder)

    def close(self) -> None:
        """Forget everything: no step follows."""
        self._restoring.clear()
        self._places.clear()
        for key in list(self._holders):
            self._forget_key(key)
        self._tier.close()

    def check_integrity(self) -> None:
        """Raise AssertionError unless tier, tree and books agree."""
        self._tier.check_integrity()
        self._tree.check_integrity()
        keys = {piece.key for piece in self._tier.pieces()}
        if keys != self._holders.keys() or len(self._tree) != len(keys) or len(self._known) != len(keys):
            raise AssertionError(f"{self!r}: {len(keys)} states, {len(self._holders)} names")

    def __repr__(self) -> str:
        if not self.is_enabled:
            return "<Checkpoints, off>"
        return f"<Checkpoints {self._tier!r}, {self._counts.num_restores} restores>"
