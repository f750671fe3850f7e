"""Which KV sequence holds how many cells, and which cells several of them share.

A shared prefix is one set of cells with many names, so adding up the lengths of sequences counts it
many times. Who decides whether there is room needs the number of distinct cells.
"""

from __future__ import annotations

import heapq


class CellRun:
    """The cells at positions [begin, end) that all `owners` (KV sequence ids) share."""

    __slots__ = ("begin", "end", "owners")

    def __init__(self, begin: int, end: int, owners: set[int]) -> None:
        self.begin = begin
        self.end = end
        self.owners = owners

    @property
    def num_cells(self) -> int:
        return self.end - self.begin

    def __repr__(self) -> str:
        return f"<CellRun [{self.begin}, {self.end}) of {sorted(self.owners)}>"


class CellLedger:
    """Counts as llama.cpp's unified KV memory does, where copying a prefix only adds a name to cells.

    Sequence ids are 0 … num_sequences - 1, the lowest free one first. A sequence's cells are the runs
    that it has shared, from position 0 on, and behind them its own. A sequence that is idle is not
    computed any more: its cells are a cache. Belongs to the engine thread; `num_used` and `num_idle`
    may be read from anywhere.
    """

    def __init__(self, num_sequences: int) -> None:
        self.num_sequences = num_sequences
        self.num_used = 0
        """Distinct cells that anyone holds."""
        self.num_idle = 0
        """Those of them that only idle sequences hold."""
        self._free = list(range(num_sequences))
        self._lengths: dict[int, int] = {}
        self._runs: dict[int, list[CellRun]] = {}
        self._idle: set[int] = set()

    def open(self) -> int:
        """The lowest free id, without cells. There must be one."""
        if not self._free:
            raise RuntimeError(f"{self!r} has no free sequence id")
        sequence_id = heapq.heappop(self._free)
        self._lengths[sequence_id] = 0
        self._runs[sequence_id] = []
        return sequence_id

    def close(self, sequence_id: int) -> None:
        """It holds nothing any more; cells that others share stay theirs."""
        self.resize(sequence_id, 0)
        del self._lengths[sequence_id], self._runs[sequence_id]
        self._idle.discard(sequence_id)
        heapq.heappush(self._free, sequence_id)

    @property
    def sequence_ids(self) -> set[int]:
        """All that are not free."""
        return set(self._lengths)

    def length(self, sequence_id: int) -> int:
        """Cells that a sequence holds, shared ones included."""
        return self._lengths[sequence_id]

    def grow(self, sequence_id: int, num_tokens: int) -> None:
        """So many more tokens were computed: each took a cell of its own."""
        self._lengths[sequence_id] += num_tokens
        self.num_used += num_tokens

    def grow_by_one(self, sequence_ids: list[int]) -> None:
        """As `grow` by one token for each of them: what every step does to all that decode."""
        lengths = self._lengths
        for sequence_id in sequence_ids:
            lengths[sequence_id] += 1
        self.num_used += len(sequence_ids)

    def resize(self, sequence_id: int, num_tokens: int) -> None:
        """It holds exactly the cells of its first `num_tokens` tokens."""
        num_more = num_tokens - self._lengths[sequence_id]
        if num_more >= 0:
            self.grow(sequence_id, num_more)
            return
        runs = self._runs[sequence_id]
        self.num_used -= self._lengths[sequence_id] - max(num_tokens, self._num_shared(sequence_id))
        self._split(sequence_id, num_tokens)
        while runs and runs[-1].begin >= num_tokens:
            run = runs.pop()
            run.owners.discard(sequence_id)
            if not run.owners:
                self.num_used -= run.num_cells
        self._lengths[sequence_id] = num_tokens
        self._count_idle()

    def share(self, source_id: int, target_id: int, num_tokens: int) -> None:
        """`target_id`, which has no cells, gets the first `num_tokens` of `source_id` too."""
        if self._lengths[target_id] or num_tokens > self._lengths[source_id]:
            raise RuntimeError(f"{num_tokens} cells of {source_id} cannot be shared with {target_id}")
        source, target = self._runs[source_id], self._runs[target_id]
        num_shared = self._num_shared(source_id)
        if num_tokens > num_shared:
            source.append(CellRun(num_shared, num_tokens, {source_id}))
        self._split(source_id, num_tokens)
        for run in source:
            if run.end <= num_tokens:
                run.owners.add(target_id)
                target.append(run)
        self._lengths[target_id] = num_tokens
        self._count_idle()

    def set_idle(self, sequence_id: int) -> None:
        """It will not be computed any more, only shared or closed."""
        self._idle.add(sequence_id)
        self._count_idle()

    def num_gained(self, sequence_id: int) -> int:
        """Cells that nobody would hold any more if this one were closed."""
        num_own = self._lengths[sequence_id] - self._num_shared(sequence_id)
        return num_own + sum([run.num_cells for run in self._runs[sequence_id] if len(run.owners) == 1])

    def _num_shared(self, sequence_id: int) -> int:
        runs = self._runs[sequence_id]
        return runs[-1].end if runs else 0

    def _split(self, sequence_id: int, position: int) -> None:
        """Let a run end at `position`, for all that share it."""
        for run in self._runs[sequence_id]:
            if run.begin < position < run.end:
                tail = CellRun(position, run.end, set(run.owners))
                run.end = position
                for owner in run.owners:
                    runs = self._runs[owner]
                    runs.insert(runs.index(run) + 1, tail)
                return

    def _count_idle(self) -> None:
        # A few dozen sequences with a handful of runs each, and only when something begins or ends.
        shared: set[CellRun] = set()
        num_idle = 0
        for sequence_id in self._idle:
            num_idle += self._lengths[sequence_id] - self._num_shared(sequence_id)
            shared.update([run for run in self._runs[sequence_id] if run.owners <= self._idle])
        self.num_idle = num_idle + sum([run.num_cells for run in shared])

    def check_integrity(self) -> None:
        """Raise AssertionError unless ids, runs and counts agree."""
        if sorted([*self._free, *self._lengths]) != list(range(self.num_sequences)):
            raise AssertionError(f"{self!r}: an id is lost or doubled")
        distinct: set[CellRun] = set()
        num_used = 0
        for sequence_id, runs in self._runs.items():
            end = 0
            for run in runs:
                if run.begin != end or run.end <= run.begin or sequence_id not in run.owners:
                    raise AssertionError(f"{self!r}: {sequence_id} has runs {runs}")
                end = run.end
            if end > self._lengths[sequence_id]:
                raise AssertionError(f"{self!r}: {sequence_id} shares more cells than it has")
            distinct.update(runs)
            num_used += self._lengths[sequence_id] - end
        for run in distinct:
            if any(run not in self._runs[owner] for owner in run.owners):
                raise AssertionError(f"{self!r}: {run!r} is not known to all of its owners")
        num_used += sum([run.num_cells for run in distinct])
        if num_used != self.num_used or not 0 <= self.num_idle <= num_used:
            raise AssertionError(f"{self!r}: {num_used} cells are held")

    def __repr__(self) -> str:
        return (
            f"<CellLedger {self.num_used} cells of {len(self._lengths)} sequences, "
            f"{self.num_idle} of them idle>"
        )
