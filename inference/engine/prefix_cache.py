"""Tokens that were computed once are not computed again: for whoever begins with the same ones.

Most prompts of a service begin like one that was there before: the same system prompt, or the same
conversation up to the last turn. Their KV cells can be shared without copying anything, by giving a
second name to them, so a sequence that ends leaves its cells here instead of freeing them, and one
that begins takes the longest beginning that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from inference.domain.cache_affinity import PrefixCacheStatistics, TokenIds
from inference.engine.cell_ledger import CellLedger
from inference.engine.radix_tree import RadixTree
from inference.engine.radix_walk import RadixWalk
from inference.engine.sequence import TokenArray

# Entries shorter than `min_tokens`, left for siblings that have no lane yet.
MAX_SHORT_ENTRIES = 4
# More tokens than any prompt has.
NEVER = 2**31
# With a smaller share than this left, room will soon be needed.
NEARLY_FULL = 0.125


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """What is there for a prompt.

    `num_tokens` of it have cells, held by `source_id`; 0 where too few have. `num_awaited` will have,
    once the sequence `leader_id` has computed them; 0 where nobody computes more than is there.
    """

    source_id: int = -1
    num_tokens: int = 0
    leader_id: int = -1
    num_awaited: int = 0


@dataclass(frozen=True, slots=True)
class Retirement:
    """What became of a sequence that ended: the cells of its first `num_kept` tokens stay (0: none).

    `freed_ids` have lost their place; their cells are to be freed. Where nothing was kept, the
    sequence itself is one of them. `entry_id` is the entry that has its tokens now, be it another; -1
    where there is none.
    """

    num_kept: int
    freed_ids: tuple[int, ...]
    entry_id: int = -1


class PrefixCache:
    """The tokens behind every KV sequence: of those that run, and of idle entries.

    Only the engine thread uses it; it makes no call to llama.cpp but says which ids are to be freed.
    Hits are looked for in one namespace only. The prompt of a running sequence counts as far as it
    is computed. Entries are given up in the order of their last use, but first those that give cells
    back: cells that a running sequence shares are pinned by it, whoever else lets go of them.

    `min_tokens`: shorter beginnings are neither kept nor shared. `max_entries`, `max_cells`: of idle
    entries; cells that running sequences share do not count. `max_entries` 0 still shares between
    running sequences. `on_evict` hears of each entry that is given up, while it is still there.

    Siblings (GenerationRequest.sibling_group) have one prompt, and whoever asked for them pays for it
    once: they share it however short it is, also where the cache is not enabled. With `is_whole_only` (a
    memory of which nothing can be cut) they can have it only while somebody has exactly what they want.
    """

    def __init__(
        self,
        *,
        is_enabled: bool,
        num_cells: int,
        num_sequences: int,
        max_entries: int,
        min_tokens: int,
        max_cells: int,
        is_whole_only: bool = False,
        on_evict: Callable[[int], None] = lambda entry: None,
    ) -> None:
        self.is_enabled = is_enabled
        self._is_whole_only = is_whole_only
        self.min_tokens = min_tokens
        self._num_cells = num_cells
        self._max_entries = max_entries
        self._max_cells = max_cells
        self._on_evict = on_evict
        self._ledger = CellLedger(num_sequences)
        self._tree = RadixTree()
        # The idle entries, the one whose last use is longest ago first; the values mean nothing.
        self._entries: dict[int, None] = {}
        # By sequence id, of those that have siblings and of the entries that they left.
        self._groups: dict[int, str] = {}
        self._total_hits = 0
        self._total_hit_tokens = 0
        self._total_evictions = 0

    # -- looking --------------------------------------------------------------------------------

    @property
    def num_cells_free(self) -> int:
        return self._num_cells - self._ledger.num_used

    @property
    def num_cells_running(self) -> int:
        """Distinct cells that running sequences hold. From any thread."""
        return max(0, self._ledger.num_used - self._ledger.num_idle)

    @property
    def statistics(self) -> PrefixCacheStatistics:
        return PrefixCacheStatistics(
            num_entries=len(self._entries),
            num_cells=self._ledger.num_idle,
            total_hits=self._total_hits,
            total_hit_tokens=self._total_hit_tokens,
            total_evictions=self._total_evictions,
        )

    def length(self, sequence_id: int) -> int:
        """Cells that a sequence holds."""
        return self._ledger.length(sequence_id)

    def tokens(self, sequence_id: int) -> tuple[str, TokenArray]:
        """The namespace and the tokens of an entry."""
        return self._tree.namespace(sequence_id), self._tree.tokens(sequence_id)

    def coldest(self) -> list[int]:
        """The entries, the one that goes first if nobody uses any the first."""
        return list(self._entries)

    @property
    def is_nearly_full(self) -> bool:
        """Entries will have to go soon: few cells are free, or nearly as many are kept as may be."""
        most_idle = min(self._max_cells, self._num_cells)
        return (
            self.num_cells_free < NEARLY_FULL * self._num_cells
            or len(self._entries) > (1 - NEARLY_FULL) * self._max_entries
            or self._ledger.num_idle > (1 - NEARLY_FULL) * most_idle
        )

    @property
    def sequence_ids(self) -> set[int]:
        """Of those that run, and of entries."""
        return self._ledger.sequence_ids

    def matched_tokens(
        self, *, namespace: str, prompts: Sequence[TokenIds], num_shared: Sequence[int]
    ) -> list[int]:
        if not self.is_enabled:
            return [0] * len(prompts)
        walk = RadixWalk(self._tree.root(namespace), self._ledger.length)
        found: list[int] = []
        for prompt, shared in zip(prompts, num_shared, strict=True):
            tokens: TokenArray = np.asarray(prompt, dtype=np.int32)
            num_tokens = min(walk.longest(tokens, shared), len(tokens) - 1)
            found.append(num_tokens if num_tokens >= self.min_tokens else 0)
        return found

    def find(
        self,
        namespace: str,
        token_ids: TokenArray,
        *,
        own_id: int = -1,
        leader_ids: Collection[int] = (),
        uncut: Callable[[int], int] | None = None,
        group: str = "",
    ) -> PrefixMatch:
        """The best beginning for these tokens (int32), of which the last one is always computed again:
        the next token is drawn from its logits.

        `leader_ids` are the sequences that compute their prompts now and may be waited for, which
        pays off where they will have at least `min_tokens` more than is there. `uncut` shortens a
        beginning to one that may be shared (Sequence.uncut). Of those of the same `group` ("": none) any
        beginning will do.
        """
        if not self.is_enabled and not group:
            return PrefixMatch()
        most = len(token_ids) - 1
        source_id, num_tokens, leader_id, num_awaited = -1, 0, -1, 0
        for overlap in self._tree.overlaps(namespace, token_ids):
            length = min(overlap.num_tokens, most)
            if uncut is not None:
                length = uncut(length)
            if length <= num_tokens and length <= num_awaited:
                break
            for holder in overlap.holders:
                least = self._least(holder, group)
                if holder == own_id or length < least:
                    continue
                num_there = min(length, self._ledger.length(holder))
                if self._is_whole_only and self._ledger.length(holder) >= length:
                    # Exactly so many it has now, or will not have any more.
                    if self._ledger.length(holder) == most > num_tokens:
                        source_id, num_tokens = holder, most
                    continue
                if uncut is not None:
                    num_there = uncut(num_there)
                if num_there > num_tokens and num_there >= least and not self._is_whole_only:
                    source_id, num_tokens = holder, num_there
                is_closer = length == num_awaited and least < self._least(leader_id, group)
                if (length > num_awaited or is_closer) and holder in leader_ids:
                    leader_id, num_awaited = holder, length
        if num_awaited - num_tokens < self._least(leader_id, group):
            leader_id, num_awaited = -1, 0
        return PrefixMatch(source_id, num_tokens, leader_id, num_awaited)

    def _least(self, holder: int, group: str) -> int:
        """How long a beginning of a holder must be to be worth sharing within a group."""
        if group and self._groups.get(holder) == group:
            return 1
        return self.min_tokens if self.is_enabled else NEVER

    # -- sequences that run ---------------------------------------------------------------------

    def open(self, namespace: str, prompt: TokenArray, group: str = "") -> int:
        """An id for a new sequence. There is one as long as no more run than there are lanes."""
        sequence_id = self._ledger.open()
        self._tree.insert(sequence_id, namespace, prompt)
        if group:
            self._groups[sequence_id] = group
        return sequence_id

    def share(self, match: PrefixMatch, sequence_id: int) -> None:
        """The cells of a match were given to a sequence, too."""
        self._ledger.share(match.source_id, sequence_id, match.num_tokens)
        self._touch(match.source_id)
        self._total_hits += 1
        self._total_hit_tokens += match.num_tokens

    def grow(self, sequence_id: int, num_tokens: int) -> None:
        """So many more of its tokens were computed."""
        self._ledger.grow(sequence_id, num_tokens)

    def grow_by_one(self, sequence_ids: list[int]) -> None:
        """One more token of each was computed."""
        self._ledger.grow_by_one(sequence_ids)

    def resize(self, sequence_id: int, num_tokens: int) -> None:
        """Exactly so many of its tokens have cells."""
        self._ledger.resize(sequence_id, num_tokens)

    # -- sequences that end ---------------------------------------------------------------------

    def retire(self, sequence_id: int, computed: TokenArray | None) -> Retirement:
        """A sequence ended; `computed` are the tokens that have cells, None where they are not worth
        keeping. What it makes superfluous goes, and what goes beyond the limits."""
        namespace = self._tree.namespace(sequence_id)
        self._tree.remove(sequence_id)
        group = self._groups.pop(sequence_id, "")
        freed: list[int] = []
        num_kept, entry_id = 0, -1
        if computed is not None:
            num_kept, entry_id = self._num_worth_keeping(namespace, computed, group)
        if computed is not None and num_kept:
            computed = computed[:num_kept]
            self._ledger.resize(sequence_id, num_kept)
            freed = [self._drop(entry) for entry in self._beginnings(namespace, computed)]
            self._tree.insert(sequence_id, namespace, computed)
            self._ledger.set_idle(sequence_id)
            self._entries[sequence_id] = None
            entry_id = sequence_id
            if group:
                self._groups[sequence_id] = group
                freed += self._trim_short()
        else:
            self._ledger.close(sequence_id)
            freed = [sequence_id]
        freed += self.trim()
        if entry_id in freed:
            entry_id = -1
        return Retirement(0 if sequence_id in freed else num_kept, tuple(freed), entry_id)

    def trim(self) -> list[int]:
        """Give up entries beyond the limits; returns the ids to free."""
        freed: list[int] = []
        while len(self._entries) > self._max_entries:
            victim = self._victim()
            freed.append(self._evict(next(iter(self._entries)) if victim is None else victim))
        while self._ledger.num_idle > self._max_cells and (victim := self._victim()) is not None:
            freed.append(self._evict(victim))
        return freed

    def evict_for(self, num_cells: int) -> list[int]:
        """Give up entries until `num_cells` are free, or none would free any; returns ids to free."""
        freed: list[int] = []
        while self.num_cells_free < num_cells and (victim := self._victim()) is not None:
            freed.append(self._evict(victim))
        return freed

    def evict_one(self) -> list[int]:
        """Give up the entry that was not used for longest; returns the ids to free."""
        victim = self._victim()
        return [] if victim is None else [self._evict(victim)]

    def forget(self, sequence_id: int) -> None:
        """An entry's cells could not be kept after all: no eviction, it just is not there."""
        if sequence_id in self._entries:
            self._drop(sequence_id)

    # -- inside ---------------------------------------------------------------------------------

    def _num_worth_keeping(self, namespace: str, computed: TokenArray, group: str) -> tuple[int, int]:
        """How many of these tokens become an entry; 0 where there are too few, or an entry has them
        (then which one, else -1). However few they are, a sibling may still come for them."""
        num_tokens = min(len(computed), self._max_cells)
        if not self.is_enabled or not self._max_entries or num_tokens < (1 if group else self.min_tokens):
            return 0, -1
        for overlap in self._tree.overlaps(namespace, computed[:num_tokens])[:1]:
            if overlap.num_tokens == num_tokens:
                for entry in overlap.holders & self._entries.keys():
                    self._touch(entry)
                    return 0, entry
        return num_tokens, -1

    def _trim_short(self) -> list[int]:
        """Entries that are only of use to siblings must not crowd out the others."""
        short = [entry for entry in self._entries if self._ledger.length(entry) < self.min_tokens]
        return [self._drop(entry) for entry in short[:-MAX_SHORT_ENTRIES]]

    def _beginnings(self, namespace: str, computed: TokenArray) -> list[int]:
        """Entries that have nothing which `computed` has not."""
        found: set[int] = set()
        for overlap in self._tree.overlaps(namespace, computed):
            for holder in overlap.holders & self._entries.keys():
                if self._ledger.length(holder) <= overlap.num_tokens:
                    found.add(holder)
        return sorted(found)

    def _touch(self, sequence_id: int) -> None:
        if sequence_id in self._entries:
            del self._entries[sequence_id]
            self._entries[sequence_id] = None

    def _victim(self) -> int | None:
        """The least recently used entry that gives cells back; None where none does."""
        for entry in self._entries:
            if self._ledger.num_gained(entry):
                return entry
        return None

    def _evict(self, entry: int) -> int:
        self._total_evictions += 1
        self._on_evict(entry)
        return self._drop(entry)

    def _drop(self, entry: int) -> int:
        del self._entries[entry]
        self._tree.remove(entry)
        self._groups.pop(entry, None)
        self._ledger.close(entry)
        return entry

    def check_integrity(self) -> None:
        """Raise AssertionError unless tree, ledger and limits agree."""
        self._ledger.check_integrity()
        self._tree.check_integrity()
        if len(self._entries) > self._max_entries:
            raise AssertionError(f"{self!r}: more than {self._max_entries} entries")
        for entry in self._entries:
            if self._ledger.length(entry) < self.min_tokens and entry not in self._groups:
                raise AssertionError(f"{self!r}: entry {entry} is too short")
        if not self._entries and self._ledger.num_idle:
            raise AssertionError(f"{self!r}: idle cells that no entry holds")

    def __repr__(self) -> str:
        if not self.is_enabled:
            return "<PrefixCache, off>"
        return (
            f"<PrefixCache {len(self._entries)} of {self._max_entries} entries, "
            f"{self._ledger.num_idle} of {self._max_cells} cells, {self._total_hits} hits>"
        )
