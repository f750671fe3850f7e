"""How it is with all models together: whether the process is ready, degraded, or of no use any more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCondition:
    """`num_serving` models answer requests, now or after a load on demand. `pending` are to be loaded and
    are not yet; `failures` are the failed ones' ids, each with its cause. `has_dead`: an engine has died
    and nobody has taken its place; `is_stuck`: one hangs and keeps what it holds. `refusal`: why there are
    no rows to read, where somebody has to do something about it.

    Settled is whoever has once come through its start: all models that are to be loaded are, or have
    failed for reasons of their own, and at least one serves. From then on, what is loaded anew makes it
    at most degraded.
    """

    is_read: bool
    num_models: int
    num_serving: int
    pending: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    has_dead: bool = False
    is_stuck: bool = False
    refusal: str = ""
    was_settled: bool = False

    @property
    def is_settled(self) -> bool:
        return self.was_settled or (bool(self.num_serving) and not self.pending)

    @property
    def is_serving(self) -> bool:
        return self.is_settled and bool(self.num_serving)

    @property
    def has_failed(self) -> bool:
        """Nothing serves, and nothing is about to."""
        if not self.is_read:
            return bool(self.refusal)
        return bool(self.failures) and not self.num_serving and not self.pending

    @property
    def is_lost(self) -> bool:
        """Only a new process helps."""
        return self.is_stuck or (self.has_dead and not self.num_serving)

    @property
    def causes(self) -> tuple[str, ...]:
        """For operators: they may name files and sizes."""
        told = [f"{id}: {cause}" if cause else id for id, cause in self.failures]
        return (self.refusal, *told) if self.refusal else tuple(told)
