"""Notices that a model's embeddings have stopped making progress while they are waited for.

Their thread can hang as the engine's can (watchdog.py), and an engine beside it that steps on says nothing
of that.
"""

from __future__ import annotations

from inference.domain.embeddings import EmbeddingStatistics
from inference.engine.watchdog import SLOW_STEP_FACTOR, Stall, Stillness

# What `stall_after_s` is meant for, as the engine's is (watchdog.py); a text that cannot be computed in parts
# may be much longer than that.
PATIENT_TOKENS = 128


class EmbeddingWatchdog:
    """Compares one snapshot with the one before; `observe` is to be called every second or so.

    Progress is a batch that was begun with: where somebody waits, the next one is. `stall_after_s`: patience
    with one, 0: no watch. It grows with the tokens of the batch; once it was measured how long a token
    takes, that says by how much.
    """

    def __init__(self, stall_after_s: float) -> None:
        self._stall_after_s = stall_after_s
        self._begun_before: int | None = None
        self._stillness = Stillness()

    def observe(self, statistics: EmbeddingStatistics, now_ts: float) -> Stall | None:
        """`now_ts`: monotonic seconds. A stall is returned at every look while it lasts."""
        begun_before, self._begun_before = self._begun_before, statistics.total_begun
        has_work = statistics.num_jobs > 0 or statistics.num_computing_tokens > 0
        if not self._stall_after_s or not has_work:
            self._begun_before = None
            return None
        has_moved = begun_before != statistics.total_begun
        stalled_s = self._stillness.look(now_ts, has_moved=has_moved)
        allowed_s = self._allowed_s(statistics)
        if has_moved or stalled_s < allowed_s:
            return None
        state = (
            f"{statistics.num_jobs} requests, {statistics.num_computing_tokens} tokens being computed, "
            f"{statistics.total_begun} batches begun in all"
        )
        return Stall(stalled_s, allowed_s, "no batch of embeddings has begun", state)

    def _allowed_s(self, statistics: EmbeddingStatistics) -> float:
        num_tokens = statistics.num_computing_tokens
        if statistics.token_s is None:
            return self._stall_after_s * max(1.0, num_tokens / PATIENT_TOKENS)
        return max(self._stall_after_s, SLOW_STEP_FACTOR * statistics.token_s * num_tokens)

    def __repr__(self) -> str:
        return f"<EmbeddingWatchdog after {self._stall_after_s:g} s>"
