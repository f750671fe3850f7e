"""Joins the rules of admission into its two faces: the caller's desk and the engine's source.

The caller submits and withdraws from the event loop, the engine thread elects at step boundaries.
One short mutex guards all; nothing waits while holding it. Prompts are compared and events told
outside of it.

Invariant: a submission is, at any instant, in exactly one of queue, grants or neither (before
`submit`, after `withdraw`, `release` or `close`). Each grant has one lane's permit and one reservation
of tokens, both or neither; the work of what waits or runs is counted once.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from inference.admission import refusals
from inference.admission.concurrency import ConcurrencySettings
from inference.admission.concurrency_control import ConcurrencyControl, Demand
from inference.admission.estimator import NO_WORK, EstimatorStatistics, ServiceEstimator, Work
from inference.admission.lane_grant import LaneGrant
from inference.admission.limiter import LimiterStatistics
from inference.admission.queue import AdmissionQueue, AdmissionQueueStatistics, Served
from inference.admission.queue_ticket import QueueTicket
from inference.admission.ranking import rank_waiters
from inference.admission.return_schedule import ReturnSchedule
from inference.admission.served_tokens import ServedTokens
from inference.admission.token_budget import (
    TokenBudget,
    TokenBudgetStatistics,
    needed_tokens,
)
from inference.admission.waiter import Admission, Waiter
from inference.domain.admission import Submission
from inference.domain.admission_events import AdmissionEvent, Admitted, ConcurrencyAdapted, Rejected
from inference.domain.backend import Newcomer
from inference.domain.cache_affinity import CacheAffinity
from inference.domain.clock import Clock
from inference.domain.errors import ServerOverloaded, SkippyError
from inference.domain.timings import Timings

Record = Callable[[AdmissionEvent], None]


@dataclass(frozen=True, slots=True)
class AdmissionStatistics:
    queue: AdmissionQueueStatistics
    budget: TokenBudgetStatistics
    limiter: LimiterStatistics
    estimator: EstimatorStatistics
    num_granted: int
    is_open: bool


class AdmissionController:
    """Implements AdmissionDesk for callers and AdmissionSource for one engine.

    `num_lanes` is what the engine has, which asks `elect` only while one is free. `record` is told
    every decision; it must not wait. `model_id` is what those about the limit are told with; a model may
    be renamed while it serves.
    """

    def __init__(
        self,
        *,
        num_lanes: int,
        max_waiting: int,
        num_cells: int,
        clock: Clock,
        record: Record,
        concurrency: ConcurrencySettings,
        model_id: str = "",
    ) -> None:
        self.max_requests = num_lanes + max_waiting
        self.model_id = model_id
        self._lock = threading.Lock()
        self._clock = clock
        self._record = record
        self._queue = AdmissionQueue(max_waiting=max_waiting, max_firsts=min(num_lanes, max_waiting))
        self._budget = TokenBudget(num_capacity_tokens=num_cells)
        self._served = ServedTokens()
        self._concurrency = ConcurrencyControl(concurrency, num_lanes=num_lanes)
        self._limiter = self._concurrency.limiter
        self._estimator = ServiceEstimator(concurrency=self._limiter.limit)
        self._returns = ReturnSchedule()
        self._grants: set[LaneGrant] = set()
        self._closed: SkippyError | None = None
        # Nobody could be elected, and nothing has changed since.
        self._is_settled = False

    # -- the caller's side ------------------------------------------------------------------------

    def submit(self, submission: Submission) -> QueueTicket:
        """Queue it. Raises, in this order: whatever `close` was given, ContextLengthExceeded for a
        request that can never fit (so that it is never disguised as overload), ServerOverloaded where
        the queue is full or the wait is predicted to last beyond the deadline."""
        waiter = Waiter(submission)
        with self._lock:
            error = self._try_enter(waiter)
        if error is not None:
            raise self._rejected(submission.request.request_id, error)
        return QueueTicket(self, waiter)

    def _try_enter(self, waiter: Waiter) -> SkippyError | None:
        if self._closed is not None:
            return self._closed
        needed = waiter.num_needed_tokens
        if not self._budget.is_possible(needed):
            return refusals.never_fits(
                num_needed_tokens=needed, num_capacity_tokens=self._budget.num_capacity_tokens
            )
        request, queue = waiter.submission.request, self._queue
        work = self._estimator.expected_work(
            num_prompt_tokens=len(request.prompt_token_ids), max_tokens=request.max_tokens
        )
        if queue.may_start(
            needed,
            num_lanes=self._limiter.num_available,
            num_free_tokens=self._budget.num_free_tokens,
        ):
            waiter.predicted_wait_s = 0.0
            waiter.work = self._estimator.start_active(work)
            queue.start(waiter)
        else:
            if not queue.has_place(user_id=request.user_id, priority=request.priority):
                return self._queue_full(work, request.user_id)
            self._concurrency.note_queued()
            waiter.has_waited = True
            behind = queue.work_behind(waiter, self._served_now())
            waiter.predicted_wait_s = self._estimator.predicted_wait_s(behind=behind)
            allowed_s = self._allowed_s(waiter.submission.deadline_ts)
            waiter.work = self._estimator.reserve_queued(work, allowed_s=allowed_s, behind=behind)
            if waiter.work is None:
                return self._too_late(work, request.user_id, allowed_s or 0.0, behind)
            queue.push(waiter)
        self._is_settled = False
        return None

    def refuse_early(self, newcomer: Newcomer) -> None:
        """What `submit` would raise for want of room, known before the prompt is tokenized."""
        with self._lock:
            error = self._early_error(newcomer)
        if error is not None:
            raise self._rejected(newcomer.request_id, error)

    def _early_error(self, newcomer: Newcomer) -> SkippyError | None:
        if self._closed is not None:
            return self._closed
        # The prompt may turn out impossible, or nobody waits and it may start at once.
        most = needed_tokens(num_prompt_tokens=newcomer.num_prompt_bytes, max_tokens=1)
        if not self._queue.num_waiting or not self._budget.is_possible(most):
            return None
        work = self._estimator.unread_work(num_prompt_bytes=newcomer.num_prompt_bytes)
        if not self._queue.has_place(user_id=newcomer.user_id, priority=newcomer.priority):
            return self._queue_full(work, newcomer.user_id)
        allowed_s = self._allowed_s(newcomer.deadline_ts)
        # How much it asks for will be known later: even the most urgent one would come after what runs.
        behind = self._estimator.queued_work()
        if self._estimator.is_too_late(allowed_s, behind=behind):
            return self._too_late(work, newcomer.user_id, allowed_s or 0.0, behind)
        return None

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        """The error for a request that had no lane in the time that it had."""
        with self._lock:
            return_s = self._return_s(self._estimator.unread_work(num_prompt_bytes=0), user_id)
        error = refusals.overdue(allowed_s=allowed_s, return_s=return_s)
        self._tell_rejected(request_id, error)
        return error

    def tell(self, event: AdmissionEvent) -> None:
        """To the recorder; never under the mutex."""
        self._record(event)

    def withdraw(self, waiter: Waiter) -> bool:
        """Its ticket's; False where it does not wait any more."""
        with self._lock:
            if not self._queue.remove(waiter):
                return False
            _release_work(waiter)
            self._is_settled = False
            return True

    # -- what a refusal says ----------------------------------------------------------------------

    def _served_now(self) -> Served:
        return partial(self._served.total, now_ts=self._clock.monotonic())

    def _allowed_s(self, deadline_ts: float | None) -> float | None:
        return None if deadline_ts is None else deadline_ts - self._clock.monotonic()

    def _queue_full(self, work: Work, user_id: int) -> ServerOverloaded:
        return refusals.queue_full(
            num_waiting=self._queue.num_waiting, return_s=self._return_s(work, user_id)
        )

    def _too_late(self, work: Work, user_id: int, allowed_s: float, behind: Work) -> ServerOverloaded:
        return refusals.too_late(
            predicted_wait_s=self._estimator.predicted_wait_s(behind=behind) or 0.0,
            allowed_s=max(allowed_s, 0.0),
            return_s=self._return_s(work, user_id, behind=behind),
        )

    def _return_s(self, work: Work, user_id: int, *, behind: Work = NO_WORK) -> float | None:
        """When somebody who is refused now should come back; None where nothing was measured yet."""
        wait_s = self._estimator.predicted_wait_s(behind=behind)
        if wait_s is None:
            return None
        service_s = self._estimator.service_s(work)
        return self._returns.book(
            user_id=user_id, now_ts=self._clock.monotonic(), wait_s=wait_s, service_s=service_s
        )

    def _rejected(self, request_id: str, error: SkippyError) -> SkippyError:
        """Tell of a refusal, and return what to raise. Not the same exception for everybody: each
        raise would add to its traceback."""
        self._tell_rejected(request_id, error)
        return copy.copy(error)

    def _tell_rejected(self, request_id: str, error: SkippyError) -> None:
        if error.reason is None:
            return
        with self._lock:
            queue = self._queue.statistics()
            predicted_s = self._estimator.predicted_wait_s()
        self.tell(Rejected(request_id, error.reason, queue.num_waiting, queue.max_waiting, predicted_s))

    # -- the engine thread's side -----------------------------------------------------------------

    def elect(self, affinity: CacheAffinity) -> LaneGrant | None:
        """Who may start now, by queue.py and ranking.py; None where nobody may or the limit is
        reached."""
        if self._is_settled:
            # Asked in every step, and nearly always so. Whoever changes that wakes the engine after it.
            return None
        while True:
            with self._lock:
                if self._is_settled or not self._limiter.num_available:
                    return None
                now_ts = self._clock.monotonic()
                found = self._queue.shortlist(self._budget.num_free_tokens, self._served_now())
                if not found.prompts.waiters:
                    self._is_settled = True
                    if not self._queue.num_waiting:
                        self._returns.clear()
                    return None
                if len(found.prompts.waiters) == 1:
                    return self._grant(found.prompts.waiters[0], now_ts)
            # Outside of the mutex: the event loop shall not wait for this.
            ranked = rank_waiters(found.prompts, ages=found.ages, affinity=affinity)
            with self._lock:
                for waiter in ranked:
                    if waiter in self._queue:
                        return self._grant(waiter, now_ts)

    def _grant(self, waiter: Waiter, now_ts: float) -> LaneGrant | None:
        """Lane and tokens together. Only the engine thread takes either, so what was free is free."""
        permit = self._limiter.try_acquire()
        reservation = self._budget.try_reserve(waiter.num_needed_tokens)
        work = waiter.work
        if permit is None or reservation is None or work is None:
            raise RuntimeError(f"{waiter!r} was elected without room for it: {self!r}")
        self._queue.remove(waiter, is_elected=True)
        work.promote()
        self._served.begin(waiter.user_id, work.work.num_tokens, now_ts)
        queue, budget = self._queue.statistics(), self._budget.statistics()
        waiter.admission = Admission(
            Admitted(
                request_id=waiter.submission.request.request_id,
                queue_depth=queue.num_waiting,
                queue_capacity=queue.max_waiting,
                has_waited=waiter.has_waited,
                wait_s=now_ts - waiter.submission.submitted_ts,
                predicted_wait_s=waiter.predicted_wait_s,
                num_reserved_tokens=reservation.num_tokens,
                num_active_tokens=budget.num_reserved_tokens,
                num_capacity_tokens=budget.num_capacity_tokens,
            ),
            self._concurrency.demand(
                has_waited=waiter.has_waited, num_waiting=queue.num_waiting, now_ts=now_ts
            ),
        )
        grant = LaneGrant(self, waiter, permit, reservation)
        self._grants.add(grant)
        return grant

    def release(self, grant: LaneGrant, num_output_tokens: int) -> None:
        """Its grant's: all that it held comes back at once, and once."""
        with self._lock:
            if grant not in self._grants:
                return
            self._grants.remove(grant)
            grant.permit.release()
            grant.reservation.release()
            waiter = grant.waiter
            if waiter.work is not None:
                self._served.end(
                    waiter.user_id,
                    num_expected=waiter.work.work.num_tokens,
                    num_served=len(waiter.tokens) + num_output_tokens,
                    now_ts=self._clock.monotonic(),
                )
            _release_work(waiter)
            self._is_settled = False

    def close(self, error: SkippyError) -> list[Submission]:
        """Refuse newcomers with `error` from now on; the first reason given stays. Returns all that
        waited: the caller answers them."""
        with self._lock:
            if self._closed is None:
                self._closed = error
            waiting = self._queue.take_all()
            for waiter in waiting:
                _release_work(waiter)
        submissions = [waiter.submission for waiter in waiting]
        for submission in submissions:
            self._tell_rejected(submission.request.request_id, error)
        return submissions

    # -- learning, on the caller's side -----------------------------------------------------------

    def observe_completed(self, demand: Demand, timings: Timings) -> None:
        """A ticket's note: how long which work took, and under which demand."""
        with self._lock:
            self._estimator.observe_completed(
                Work(timings.num_prompt_tokens, timings.num_predicted_tokens),
                prompt_s=timings.prompt_s,
                decode_s=timings.predicted_s,
            )
            decision = self._concurrency.observe_completed(
                demand, timings, num_waiting=self._queue.num_waiting, now_ts=self._clock.monotonic()
            )
            self._adapt(decision)
        if decision is not None:
            self.tell(replace(decision, model=self.model_id))

    def observe_failed(self) -> None:
        """A ticket's note: the engine could not go on."""
        with self._lock:
            decision = self._concurrency.observe_failed()
            self._adapt(decision)
        if decision is not None:
            self.tell(replace(decision, model=self.model_id))

    def _adapt(self, decision: ConcurrencyAdapted | None) -> None:
        if decision is not None:
            self._estimator.set_concurrency(decision.current_limit)
            self._is_settled = False

    # -- watching ---------------------------------------------------------------------------------

    def statistics(self) -> AdmissionStatistics:
        with self._lock:
            return AdmissionStatistics(
                queue=self._queue.statistics(),
                budget=self._budget.statistics(),
                limiter=self._limiter.statistics(),
                estimator=self._estimator.statistics(),
                num_granted=len(self._grants),
                is_open=self._closed is None,
            )

    def check_integrity(self) -> None:
        """Raise AssertionError unless every part holds what is granted or waits, and no more."""
        with self._lock:
            for part in (self._queue, self._budget, self._limiter, self._estimator):
                part.check_integrity()
            queue, estimator = self._queue.statistics(), self._estimator.statistics()
            num_granted = len(self._grants)
            assert self._budget.statistics().num_reservations == num_granted, repr(self)
            assert self._limiter.statistics().num_held == num_granted, repr(self)
            num_counted = num_granted + queue.num_waiting + queue.num_starting
            assert estimator.num_reservations == num_counted, repr(self)

    def __repr__(self) -> str:
        parts = f"{self._queue!r}, {self._budget!r}, {self._limiter!r}"
        return f"<AdmissionController: {parts}, {len(self._grants)} granted>"


def _release_work(waiter: Waiter) -> None:
    if waiter.work is not None:
        waiter.work.release()
