"""Joins the rule for the limit with what enforces it, and notes under which demand requests ran.

A window of completed requests says something about the limit only where others wanted the lanes. So
each request remembers how many had had to queue when it got its lane, and when it is complete it is
seen whether there were more.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.admission.concurrency import (
    AdaptiveConcurrency,
    CompletionObservation,
    ConcurrencySettings,
)
from inference.admission.limiter import ConcurrencyLimiter
from inference.domain.admission_events import ConcurrencyAdapted
from inference.domain.timings import Timings


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request found when it got its lane. `epoch` counts those who had had to queue,
    `was_at_capacity`: with it, the limit was reached."""

    has_waited: bool
    had_queue: bool
    was_at_capacity: bool
    epoch: int
    started_ts: float


class ConcurrencyControl:
    """Without the adaptive rule, the limit is the number of lanes. Not thread-safe by itself."""

    def __init__(self, settings: ConcurrencySettings, *, num_lanes: int) -> None:
        self._rule = AdaptiveConcurrency(settings, max_limit=num_lanes) if settings.is_adaptive else None
        limit = num_lanes if self._rule is None else self._rule.limit
        self.limiter = ConcurrencyLimiter(limit=limit, max_limit=num_lanes)
        self._demand_epoch = 0

    def note_queued(self) -> None:
        """A request has to wait."""
        self._demand_epoch += 1

    def demand(self, *, has_waited: bool, num_waiting: int, now_ts: float) -> Demand:
        """Of a request that has just got its permit."""
        return Demand(
            has_waited=has_waited,
            had_queue=num_waiting > 0,
            was_at_capacity=not self.limiter.num_available,
            epoch=self._demand_epoch,
            started_ts=now_ts,
        )

    def observe_completed(
        self, demand: Demand, timings: Timings, *, num_waiting: int, now_ts: float
    ) -> ConcurrencyAdapted | None:
        """A request is complete; returns what was decided, which is in force then."""
        if self._rule is None:
            return None
        has_demand = num_waiting > 0 or self._demand_epoch != demand.epoch
        decision = self._rule.observe_completed(
            CompletionObservation(
                num_completed_tokens=timings.num_prompt_tokens + timings.num_predicted_tokens,
                num_executed_tokens=timings.num_prefilled_tokens + timings.num_predicted_tokens,
                latency_s=timings.prompt_s + timings.predicted_s,
                is_saturated=demand.has_waited or demand.had_queue or has_demand,
                was_at_capacity=demand.was_at_capacity,
                started_ts=demand.started_ts,
            ),
            now_ts=now_ts,
            num_retiring=self.limiter.num_retiring,
        )
        return self._applied(decision)

    def observe_failed(self) -> ConcurrencyAdapted | None:
        """The engine failed with a request."""
        return None if self._rule is None else self._applied(self._rule.observe_failed())

    def _applied(self, decision: ConcurrencyAdapted | None) -> ConcurrencyAdapted | None:
        if decision is not None:
            self.limiter.set_limit(decision.current_limit)
        return decision

    def __repr__(self) -> str:
        return f"<ConcurrencyControl: {self.limiter!r}, {self._rule!r}>"
