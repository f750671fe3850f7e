"""Whose turn it is, where running sequences want different LoRA adapters.

A batch is computed under one set of adapters, and to change it costs a step's worth of time on a small
model (docs/performance.md). So sets take turns: each computes for a slice of time, then the next one does,
and within its slice everything goes on as if the others were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from inference.domain.adapters import AdapterSet
from inference.engine.sequence import DECODING, PREFILLING, Sequence

# Ten times what a change costs, so that it takes less than a tenth of the time; not longer, since it is
# the others' readers who wait.
SLICE_S = 0.08
# However fast the steps are: the others are waiting.
MAX_SLICE_STEPS = 32


class AdapterTurns:
    """The sets that have something to compute, in the order of their turns; the first one has it now.

    A set that comes (or comes back) goes to the end, one whose slice is over too. So each waits for at
    most one slice of every other one, whatever comes meanwhile, and a slice ends with the step that
    reaches SLICE_S or MAX_SLICE_STEPS. Sequences that stand still wait for no turn.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the engine's monotonic clock."""
        self._now = now
        self._order: list[AdapterSet] = []
        self._began_ts = 0.0
        self._num_steps = 0
        self.total_turns = 0

    def take(self, sequences: Iterable[Sequence]) -> list[Sequence]:
        """Those of them that the next step computes, in their order; called once for each step."""
        groups: dict[AdapterSet, list[Sequence]] = {}
        for sequence in sequences:
            state = sequence.state
            if state is DECODING or (state is PREFILLING and not sequence.num_to_restore):
                groups.setdefault(sequence.adapters, []).append(sequence)
        if not groups:
            self._order = []
            return []
        had_turn = self._order[0] if self._order else None
        order = [one for one in self._order if one in groups]
        order += [one for one in groups if one not in order]
        if len(order) > 1 and order[0] == had_turn and self._is_slice_over:
            order.append(order.pop(0))
        if order[0] != had_turn:
            self._began_ts, self._num_steps = self._now(), 0
            self.total_turns += 1
        self._num_steps += 1
        self._order = order
        return groups[order[0]]

    @property
    def _is_slice_over(self) -> bool:
        return self._num_steps >= MAX_SLICE_STEPS or self._now() - self._began_ts >= SLICE_S

    def __repr__(self) -> str:
        return f"<AdapterTurns of {len(self._order)} sets, {self.total_turns} so far>"
