"""What the cells have no room for is kept in host memory, and is back sooner than it could be computed.

    idle entry of the prefix cache, preempted sequence ──save──▶ HostTier ──restore──▶ a sequence
                                                                   ▼   ▲
                                                                  DiskTier  (where there is one)

States go in pieces of a few dozen tokens with names of their own (piece_keys.py): so a copy takes as
little of a step as there is (copy_budget.py), what many prompts begin with is kept once, and of what
was given up half-way the first half is still good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from inference.domain.cache_retention import DAY_S, CacheRetention
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.requests import GenerationRequest
from inference.engine.config import EngineConfig
from inference.engine.copy_budget import CopyBudget, CopyKind
from inference.engine.copy_counts import CopyCounts
from inference.engine.disk_tier import DiskTier
from inference.engine.host_tier import HostTier
from inference.engine.model_runner import ModelRunner
from inference.engine.piece_keys import PieceKeys
from inference.engine.sequence import Sequence, TokenArray

logger = logging.getLogger(__name__)

# Of a disk that takes longer than this, computing is probably no slower.
DISK_PATIENCE_S = 2.0


class ColdPrefixes:
    """Belongs to the engine thread; `statistics` is for all.

    Whatever goes wrong, a prompt is just computed. Only text is kept: where a picture or a sound stands
    in a prompt, what comes behind it is computed again.
    """

    def __init__(
        self,
        runner: ModelRunner,
        config: EngineConfig,
        *,
        keys: PieceKeys,
        budget: CopyBudget,
        now_ts: Callable[[], float],
        disk: DiskTier | None = None,
    ) -> None:
        self._runner = runner
        self._min_tokens = config.min_cached_tokens
        self._num_piece_tokens = runner.num_piece_tokens
        is_enabled = config.has_prefix_cache and runner.can_share_prefixes and runner.num_piece_tokens > 0
        self.is_enabled = is_enabled and config.host_cache_bytes > 0
        max_bytes = config.host_cache_bytes if self.is_enabled else 0
        self._disk = disk
        if disk is None:
            self._tier = HostTier(max_bytes, now_ts=now_ts)
        else:
            self._tier = HostTier(max_bytes, now_ts=now_ts, on_leave=disk.write)
        self._now_ts = now_ts
        self._keys = keys
        self._budget = budget
        # What is to be restored to whom, the oldest first.
        self._restoring: dict[Sequence, list[bytes]] = {}
        # What the disk is asked for, and until when somebody waits for it.
        self._awaited: set[bytes] = set()
        self._patience_ts = 0.0
        # Entries of the prefix cache of which everything is there, and what was said of others.
        self._clean: set[int] = set()
        self._retentions: dict[int, CacheRetention] = {}
        self._piece_bytes = 0
        self._counts = CopyCounts()

    @property
    def statistics(self) -> ColdPrefixStatistics:
        return self._counts.statistics(self._tier, None if self._disk is None else self._disk.statistics)

    @property
    def is_busy(self) -> bool:
        """Something was copied since the step began, or can be now: the disk says when it has something."""
        return self._budget.has_copied or (bool(self._restoring) and not self._awaited)

    # -- out of the cells -----------------------------------------------------------------------

    def note_retention(self, sequence_id: int, retention: CacheRetention) -> None:
        """What somebody said of the tokens of an entry, or of a sequence that becomes one."""
        if self.is_enabled and retention is not CacheRetention.UNSAID:
            known = self._retentions.get(sequence_id, retention)
            self._retentions[sequence_id] = known.or_longer(retention)
            self._clean.discard(sequence_id)

    def is_clean(self, entry_id: int) -> bool:
        """Nothing of this entry has to be saved."""
        return entry_id in self._clean

    def save(self, sequence_id: int, namespace: str, token_ids: TokenArray) -> bool:
        """Copy what is not there yet of these tokens, all of which have cells, as far as the step's time
        allows. False where some are left."""
        if not self.is_enabled:
            return True
        retention = self._retentions.get(sequence_id, CacheRetention.UNSAID)
        keys = self._keys.chain(namespace, _text_of(token_ids))
        if self._piece_bytes:
            # More of one prompt than there may be would push out its own beginning.
            keys = keys[: self._tier.max_bytes // self._piece_bytes]
        is_done = True
        for index, key in enumerate(keys):
            if key in self._tier:
                continue
            if not self._budget.allows(CopyKind.SAVE, self._num_piece_tokens, sequence_id):
                is_done, keys = False, keys[:index]
                break
            if not self._save_piece(sequence_id, index, key, retention):
                break
        self._tier.use(keys, retention)
        if is_done:
            self._clean.add(sequence_id)
        return is_done

    def _save_piece(self, sequence_id: int, index: int, key: bytes, retention: CacheRetention) -> bool:
        begin, begin_ts = index * self._num_piece_tokens, self._now_ts()
        try:
            data = self._runner.save_state(sequence_id, begin, begin + self._num_piece_tokens)
        except Exception:
            logger.exception("The state of a prefix could not be saved")
            data = None
        is_kept = data is not None and self._tier.put(key, data, retention)
        elapsed_s = self._budget.spend(CopyKind.SAVE, self._num_piece_tokens, begin_ts)
        if data is None:
            self._counts.failed()
        elif is_kept:
            self._piece_bytes = max(self._piece_bytes, len(data))
            self._counts.saved(self._num_piece_tokens, elapsed_s)
        return is_kept

    def forget(self, sequence_id: int) -> None:
        """The id means nothing any more."""
        self._clean.discard(sequence_id)
        self._retentions.pop(sequence_id, None)

    # -- into the cells -------------------------------------------------------------------------

    def find(self, sequence: Sequence) -> int:
        """Of how many of its tokens the state could be there without computing, with what it has in cells
        already; 0 where that are too few more."""
        if not self.is_enabled:
            return 0
        return self._end_of(sequence, self._pieces_for(sequence))

    def begin(self, sequence: Sequence) -> bool:
        """Restore to a sequence what there is beyond the cells that it has: from now on, in pieces."""
        if not self.is_enabled:
            return False
        keys = self._pieces_for(sequence)
        end = self._end_of(sequence, keys)
        if end:
            sequence.num_to_restore = end
            self._restoring[sequence] = keys
            self._tier.use(keys, retention_of(sequence.request))
            self._fetch(keys[sequence.num_computed // self._num_piece_tokens :])
        return end > 0

    def _fetch(self, keys: list[bytes]) -> None:
        """Ask the disk for what is only there."""
        missing = [key for key in keys if key not in self._tier and key not in self._awaited]
        if missing and self._disk is not None:
            self._awaited.update(missing)
            self._patience_ts = self._now_ts() + DISK_PATIENCE_S
            self._disk.read(missing)

    def _take_from_disk(self) -> None:
        if self._disk is None:
            return
        for key, piece in self._disk.take():
            self._awaited.discard(key)
            if piece is not None:
                self._tier.put_piece(replace(piece, kept_until_ts=self._now_ts() + DAY_S))
        if self._awaited and self._now_ts() > self._patience_ts:
            self._awaited.clear()  # whoever waits computes it

    def _is_there(self, key: bytes) -> bool:
        return key in self._tier or (self._disk is not None and key in self._disk)

    def _pieces_for(self, sequence: Sequence) -> list[bytes]:
        """The keys of the pieces from its beginning on, those in cells included, up to where the next one
        is not there."""
        num_there = sequence.num_computed // self._num_piece_tokens
        tokens = sequence.first(sequence.num_text_tokens)
        keys = self._keys.chain(sequence.request.cache_namespace, tokens)
        num_found = next(
            (index for index in range(num_there, len(keys)) if not self._is_there(keys[index])), len(keys)
        )
        return keys[:num_found]

    def _end_of(self, sequence: Sequence, keys: list[bytes]) -> int:
        # The last token is always computed: the next one is drawn from its logits.
        end = min(len(keys) * self._num_piece_tokens, sequence.num_tokens - 1)
        return end if end - sequence.num_computed >= self._min_tokens else 0

    def restore(
        self, *, make_room: Callable[[int], bool], grow: Callable[[int, int], None]
    ) -> list[Sequence]:
        """Go on with what was begun, as far as the step's time allows, the oldest first. Returns those who
        have all that there was.

        `make_room` gets free cells, and says whether there are so many; `grow` hears of a sequence that
        got so many tokens more.
        """
        done: list[Sequence] = []
        self._take_from_disk()
        for sequence, keys in list(self._restoring.items()):
            if not sequence.num_to_restore:  # it was held, preempted or ended
                del self._restoring[sequence]
                continue
            while sequence.num_to_restore > sequence.num_computed:
                if keys[sequence.num_computed // self._num_piece_tokens] in self._awaited:
                    break
                if not self._budget.allows(CopyKind.RESTORE, self._num_piece_tokens, sequence):
                    break
                num_more = self._restore_piece(sequence, keys) if make_room(self._num_piece_tokens) else 0
                if not num_more:
                    sequence.num_to_restore = 0
                    break
                sequence.advance(num_more)
                grow(sequence.sequence_id, num_more)
            if sequence.num_to_restore <= sequence.num_computed:
                del self._restoring[sequence]
                self._counts.num_restores += sequence.num_to_restore > 0
                sequence.num_to_restore = 0
                done.append(sequence)
        return done

    def _restore_piece(self, sequence: Sequence, keys: list[bytes]) -> int:
        """How many tokens more it has now."""
        begin_ts, begin = self._now_ts(), sequence.num_computed
        index = begin // self._num_piece_tokens
        end = min((index + 1) * self._num_piece_tokens, sequence.num_to_restore)
        data = self._tier.get(keys[index])
        if data is None:
            return 0
        try:
            is_restored = self._runner.load_state(sequence.sequence_id, begin, end, data)
        except Exception:
            logger.exception("The state of a prefix could not be restored")
            is_restored = False
        elapsed_s = self._budget.spend(CopyKind.RESTORE, self._num_piece_tokens, begin_ts)
        if not is_restored:
            self._tier.drop(keys[index])
            self._counts.failed()
            return 0
        self._counts.restored(end - begin, elapsed_s)
        return end - begin

    def close(self) -> None:
        """Forget everything: no step follows."""
        self._restoring.clear()
        if self._disk is not None:
            self._disk.close(self._tier.pieces())
        self._tier.close()

    def check_integrity(self, sequence_ids: Iterable[int]) -> None:
        """Raise AssertionError unless tier and books agree; `sequence_ids` are all that are known."""
        self._tier.check_integrity()
        if self._disk is not None:
            self._disk.check_integrity()
        unknown = (self._clean | self._retentions.keys()) - set(sequence_ids)
        if unknown:
            raise AssertionError(f"{self!r}: notes of sequences {unknown} that are gone")

    def __repr__(self) -> str:
        if not self.is_enabled:
            return "<ColdPrefixes, off>"
        return f"<ColdPrefixes {self._tier!r}, {self._counts.num_restores} restores, {self._budget!r}>"


def retention_of(request: GenerationRequest) -> CacheRetention:
    """How long, and where, what was computed for a request may be kept. An adapter's file may be another
    one after a restart, so that what it had a part in stays in memory."""
    return CacheRetention.IN_MEMORY if request.adapters else request.cache_retention


def _text_of(token_ids: TokenArray) -> TokenArray:
    """What comes before the first picture or sound, whose made-up ids are below 0."""
    is_made_up = token_ids < 0
    first = int(np.argmax(is_made_up)) if len(token_ids) else 0
    return token_ids[:first] if len(token_ids) and is_made_up[first] else token_ids
