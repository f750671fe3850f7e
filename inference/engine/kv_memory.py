"""The KV cells of a model: what llama.cpp holds and what we know of it, kept in step.

Every change is made twice, in the runner's memory and in the prefix cache's books. Here both are one
call, so that nobody can make one without the other. And what leaves the cells is offered to those who
keep it elsewhere (cold_prefixes.py).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np

from inference.domain.cache_affinity import CacheAffinity
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.requests import GenerationRequest
from inference.engine.checkpoints import Checkpoints
from inference.engine.cold_prefixes import ColdPrefixes, retention_of
from inference.engine.config import EngineConfig
from inference.engine.copy_budget import CopyBudget
from inference.engine.disk_tier import disk_tier_open
from inference.engine.model_runner import ModelRunner
from inference.engine.piece_keys import KEY_BYTES, PieceKeys
from inference.engine.prefix_cache import PrefixCache, PrefixMatch
from inference.engine.sequence import Sequence, TokenArray
from inference.engine.sequence_media import uncut

logger = logging.getLogger(__name__)


class KvMemory:
    """Belongs to the engine thread; `affinity.statistics` and `num_cells_running` are for all.

    Idle entries never stand in anybody's way: whoever runs and needs cells gets theirs.
    """

    def __init__(
        self,
        runner: ModelRunner,
        config: EngineConfig,
        *,
        now_ts: Callable[[], float],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called, on any thread, when there is something new to copy."""
        self._runner = runner
        self._config = config
        self._budget = CopyBudget(now_ts)
        disk = disk_tier_open(runner, config, on_read=wake)
        secret = secrets.token_bytes(KEY_BYTES) if disk is None else disk.key_secret
        keys = PieceKeys(secret=secret, num_tokens=max(runner.num_piece_tokens, 1))
        self._cold = ColdPrefixes(runner, config, keys=keys, budget=self._budget, now_ts=now_ts, disk=disk)
        self._checkpoints = Checkpoints(runner, config, keys=keys, budget=self._budget, now_ts=now_ts)
        self._cache = self._make_cache(self._save)
        if config.has_prefix_cache and not runner.can_share_prefixes:
            how = (
                "only whole states are kept" if self._checkpoints.is_enabled else "prompts are computed whole"
            )
            logger.info("This model's memory cannot be shared in part: %s", how)

    def _make_cache(self, on_evict: Callable[[int], None]) -> PrefixCache:
        config, runner = self._config, self._runner
        is_enabled = config.has_prefix_cache and runner.can_share_prefixes
        num_sequences = config.num_sequences if is_enabled else config.num_lanes
        return PrefixCache(
            is_enabled=is_enabled,
            num_cells=runner.num_cells,
            num_sequences=num_sequences,
            max_entries=num_sequences - config.num_lanes,
            min_tokens=config.min_cached_tokens,
            max_cells=config.effective_max_cached_cells,
            is_whole_only=not runner.can_share_prefixes,
            on_evict=on_evict,
        )

    @property
    def affinity(self) -> CacheAffinity:
        return self._cache

    @property
    def num_cells_running(self) -> int:
        """Distinct cells of running sequences."""
        return self._cache.num_cells_running

    @property
    def num_cells_free(self) -> int:
        """Cells that nobody has, not even the cache."""
        return self._cache.num_cells_free

    @property
    def cold_statistics(self) -> ColdPrefixStatistics:
        return self._checkpoints.statistics if self._checkpoints.is_enabled else self._cold.statistics

    # -- sequences ------------------------------------------------------------------------------

    def open(self, request: GenerationRequest) -> int:
        """A KV sequence for a request, without cells. The runner's side is opened by the caller."""
        prompt: TokenArray = np.array(request.prompt_token_ids, dtype=np.int32)
        return self._cache.open(request.cache_namespace, prompt, request.sibling_group)

    def find(self, sequence: Sequence, leaders: Mapping[int, Sequence]) -> PrefixMatch:
        """What is there for all tokens that a sequence knows, or is being computed by one of `leaders` (by
        their sequence ids). Nothing for one that needs the logits of its prompt, or no cells at all."""
        if sequence.is_scoring or not sequence.max_tokens:
            return PrefixMatch()
        match = self._cache.find(
            sequence.request.cache_namespace,
            sequence.first(sequence.num_tokens),
            own_id=sequence.sequence_id,
            leader_ids=leaders.keys(),
            uncut=partial(uncut, sequence) if sequence.request.media else None,
            group=sequence.request.sibling_group,
        )
        if match.num_awaited and not self._runner.can_share_prefixes:
            # What cannot be cut is copied while it is there and not more.
            leaders[match.leader_id].sibling_place = match.num_awaited
        return match

    def adopt(self, sequence: Sequence, match: PrefixMatch) -> None:
        """Let a sequence begin with the cells of a match. Whatever goes wrong, its prompt is just
        computed."""
        sequence_id = sequence.sequence_id
        try:
            is_copied = self._runner.copy_prefix(match.source_id, sequence_id, match.num_tokens)
        except Exception:
            logger.exception("A prefix of %d tokens could not be copied", match.num_tokens)
            self._runner.rewind(sequence_id, 0)
            is_copied = False
        if is_copied:
            self._cache.share(match, sequence_id)
            sequence.adopt(match.num_tokens)

    def grow(self, sequence_id: int, num_tokens: int) -> None:
        """A step computed so many more tokens of a sequence."""
        self._cache.grow(sequence_id, num_tokens)

    def grow_by_one(self, sequence_ids: list[int]) -> None:
        """A step computed one more token of each of them."""
        self._cache.grow_by_one(sequence_ids)

    def rewind(self, sequence_id: int, max_tokens: int) -> int:
        """Keep the cells of at most so many tokens; returns of how many there are some, as llama.cpp
        knows it."""
        num_kept = self._runner.rewind(sequence_id, max_tokens)
        self._cache.resize(sequence_id, num_kept)
        return num_kept

    def resync(self, sequence: Sequence) -> None:
        """After a step that was applied in part: positions in the next batch must follow those in the cells,
        or llama.cpp refuses it."""
        num_kept = self.rewind(sequence.sequence_id, sequence.max_kept)
        if uncut(sequence, num_kept) < num_kept:
            num_kept = self.rewind(sequence.sequence_id, uncut(sequence, num_kept))
        sequence.resync(num_kept)

    def lose(self, sequences: Iterable[Sequence]) -> None:
        """A batch has taken the cells of these with it."""
        for sequence in sequences:
            self.rewind(sequence.sequence_id, 0)

    def retire(self, sequence: Sequence, *, has_failed: bool) -> None:
        """A sequence ended: its cells stay for those who begin alike, where that makes sense. Not
        after a failure: who knows what is in them. Of many answers to one prompt only the prompt stays:
        they would crowd out everybody else's."""
        sequence_id, num_tokens = sequence.sequence_id, sequence.num_computed
        self._cold.note_retention(sequence_id, retention_of(sequence.request))
        if has_failed or sequence.request.sibling_group:
            self._checkpoints.drop(sequence)
        else:
            self._checkpoints.leave(sequence)
        if sequence.request.sibling_group:
            num_tokens = min(num_tokens, sequence.num_prompt_tokens)
        computed = None if has_failed else sequence.first(num_tokens)
        retirement = self._cache.retire(sequence_id, computed)
        if retirement.num_kept and not self._runner.keep_sequence(sequence_id, retirement.num_kept):
            self._cache.forget(sequence_id)
            self._free([sequence_id])
        elif retirement.entry_id >= 0:
            self._cold.note_retention(retirement.entry_id, retention_of(sequence.request))
        self._free(retirement.freed_ids)

    def preempt(self, sequence: Sequence) -> None:
        """Take its cells from a sequence that will need them again."""
        if sequence.num_computed:
            computed = sequence.first(sequence.num_computed)
            self._cold.note_retention(sequence.sequence_id, retention_of(sequence.request))
            self._cold.save(sequence.sequence_id, sequence.request.cache_namespace, computed)
            self._cold.forget(sequence.sequence_id)
            self._checkpoints.leave(sequence)
        self.rewind(sequence.sequence_id, 0)

    # -- outside of the cells -------------------------------------------------------------------

    def begin_restore(self, sequence: Sequence) -> bool:
        """Let a sequence that has begun get what is kept of its other tokens outside of the cells, in
        the steps to come (its `num_to_restore` says so); False where that is not worth it."""
        if sequence.is_scoring or not sequence.max_tokens:
            return False
        return self._cold.begin(sequence) or self._checkpoints.begin(sequence)

    def copy_states(self, *, has_streams: bool) -> list[Sequence]:
        """A step's share of copying: to those who wait for it, else out of entries that may have to go
        soon. Returns those who have got what there was."""
        self._budget.begin_step(has_streams=has_streams)
        if self._checkpoints.is_enabled:
            self._checkpoints.save_where_due()
            return self._checkpoints.restore(make_room=self._has_room_for, grow=self._cache.grow)
        if not self._cold.is_enabled:
            return []
        done = self._cold.restore(make_room=self._has_room_for, grow=self._cache.grow)
        if not self._cold.is_busy and self._cache.is_nearly_full:
            self._save_coldest()
        return done

    def save_idle(self) -> bool:
        """Nobody computes anything: a step's share of copying whatever may have to go some day. False
        where there was nothing to do."""
        if self._cold.is_enabled and not self._cold.is_busy:
            self._save_coldest()
        return self._cold.is_busy or self._checkpoints.is_busy

    def _save_coldest(self) -> None:
        for entry in self._cache.coldest():
            if not self._cold.is_clean(entry):
                self._save(entry)
                return

    def _save(self, entry: int) -> None:
        self._cold.save(entry, *self._cache.tokens(entry))

    def _has_room_for(self, num_cells: int) -> bool:
        self.make_room(num_cells)
        return self._cache.num_cells_free >= num_cells

    # -- room -----------------------------------------------------------------------------------

    def make_room(self, num_cells: int) -> None:
        """Give up idle entries until so many cells are free, as far as there are any."""
        self._free(self._cache.evict_for(num_cells))

    def evict_one(self) -> bool:
        """Give up one idle entry; False where none would give a cell back."""
        evicted = self._cache.evict_one()
        self._free(evicted)
        return bool(evicted)

    def trim(self) -> None:
        """Give up idle entries beyond the limits."""
        self._free(self._cache.trim())

    def close(self) -> None:
        """Forget everything without asking the runner, which is about to be freed as a whole, and hold on to
        nothing that holds on to this: the model's tables would wait for the collector."""
        self._cache = self._make_cache(lambda entry: None)
        self._cold.close()
        self._checkpoints.close()

    def _free(self, sequence_ids: Iterable[int]) -> None:
        for sequence_id in sequence_ids:
            self._cold.forget(sequence_id)
            self._runner.close_sequence(sequence_id)

    def check_integrity(self, sequences: list[Sequence]) -> None:
        """Raise AssertionError unless the books agree with themselves and with what runs."""
        self._cache.check_integrity()
        self._cold.check_integrity(self._cache.sequence_ids)
        self._checkpoints.check_integrity()
        for sequence in sequences:
            if self._cache.length(sequence.sequence_id) != sequence.num_computed:
                raise AssertionError(f"{sequence!r} does not hold so many cells: {self!r}")

    def __repr__(self) -> str:
        kept = self._checkpoints if self._checkpoints.is_enabled else self._cold
        return f"<KvMemory {self.num_cells_running} cells running, {self._cache!r}, {kept!r}>"
