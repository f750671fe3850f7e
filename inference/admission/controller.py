"""Joins queue and budget into the two faces of admission: the caller's desk and the engine's source.

The caller submits and withdraws from the event loop, the engine thread elects at step boundaries.
One short mutex guards both; nothing waits while holding it, and no event is told under it.

Invariant: a submission is, at any instant, in exactly one of queue, grants or neither (before
`submit`, after `withdraw`, `release` or `close`), and every reservation belongs to one grant.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass

from inference.admission.queue import AdmissionQueue, AdmissionQueueStatistics
from inference.admission.token_budget import Reservation, TokenBudget, TokenBudgetStatistics
from inference.domain.admission import Submission
from inference.domain.admission_events import AdmissionEvent, Rejected
from inference.domain.cache_affinity import CacheAffinity
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded, SkippyError
from inference.domain.rejection_reason import RejectionReason
from inference.domain.timings import Timings

Record = Callable[[AdmissionEvent], None]


@dataclass(frozen=True, slots=True)
class AdmissionStatistics:
    queue: AdmissionQueueStatistics
    budget: TokenBudgetStatistics
    num_granted: int
    num_lanes: int
    is_open: bool


class QueueTicket:
    """The caller's place in the queue."""

    __slots__ = ("_controller", "_submission")

    def __init__(self, controller: AdmissionController, submission: Submission) -> None:
        self._controller = controller
        self._submission = submission

    def withdraw(self) -> bool:
        return self._controller._withdraw(self._submission)

    def note_started(self) -> None:
        pass

    def note_completed(self, timings: Timings) -> None:
        pass

    def note_failed(self) -> None:
        pass


class LaneGrant:
    """What the engine holds while a submission runs."""

    __slots__ = ("_controller", "_reservation", "_submission")

    def __init__(
        self, controller: AdmissionController, submission: Submission, reservation: Reservation
    ) -> None:
        self._controller = controller
        self._submission = submission
        self._reservation = reservation

    @property
    def submission(self) -> Submission:
        return self._submission

    def release(self, *, num_output_tokens: int = 0) -> None:
        self._controller._release(self, self._reservation)

    def __repr__(self) -> str:
        return f"<LaneGrant of request {self._submission.request.request_id}, {self._reservation!r}>"


class AdmissionController:
    """Implements AdmissionDesk for callers and AdmissionSource for one engine.

    `num_lanes` is what the engine has; it is only used to know how many lanes are free but not yet
    handed out. The engine itself asks `elect()` only while it has a free lane.
    """

    def __init__(self, *, num_lanes: int, max_waiting: int, num_cells: int, record: Record) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._num_lanes = num_lanes
        self._queue = AdmissionQueue(max_waiting=max_waiting)
        self._budget = TokenBudget(num_capacity_tokens=num_cells)
        self._grants: set[LaneGrant] = set()
        self._closed: SkippyError | None = None

    # -- the caller's side ------------------------------------------------------------------------

    def submit(self, submission: Submission) -> QueueTicket:
        """Queue it. Raises, in this order: whatever `close` was given, ContextLengthExceeded for a
        request that can never fit (so that it is never disguised as overload), ServerOverloaded."""
        request = submission.request
        try:
            with self._lock:
                self._check_open()
                self._budget.check_possible(
                    prompt_tokens=len(request.prompt_token_ids), max_tokens=request.max_tokens
                )
                self._queue.push(submission, num_free_lanes=self._num_free_lanes)
        except SkippyError as error:
            self._tell_rejected(request.request_id, error)
            raise
        return QueueTicket(self, submission)

    def refuse_early(
        self, *, request_id: str, num_prompt_bytes: int, deadline_ts: float | None = None
    ) -> None:
        try:
            with self._lock:
                self._check_open()
                try:
                    self._budget.check_possible(prompt_tokens=num_prompt_bytes, max_tokens=1)
                except ContextLengthExceeded:
                    return
                self._queue.check_room(num_free_lanes=self._num_free_lanes)
        except SkippyError as error:
            self._tell_rejected(request_id, error)
            raise

    def reject_overdue(self, *, request_id: str, allowed_s: float) -> ServerOverloaded:
        error = ServerOverloaded(
            f"No lane was free within {allowed_s:.0f} seconds. Please retry later.",
            reason=RejectionReason.ADMISSION_TIMEOUT,
        )
        self._tell_rejected(request_id, error)
        return error

    @property
    def _num_free_lanes(self) -> int:
        return max(self._num_lanes - len(self._grants), 0)

    def _check_open(self) -> None:
        if self._closed is not None:
            # Not the same one again and again: each raise adds to an exception's traceback.
            raise copy.copy(self._closed)

    def _tell_rejected(self, request_id: str, error: SkippyError) -> None:
        if error.reason is not None:
            waiting = self._queue.statistics()
            self._record(Rejected(request_id, error.reason, waiting.num_waiting, waiting.max_waiting, None))

    def _withdraw(self, submission: Submission) -> bool:
        with self._lock:
            return self._queue.remove(submission)

    # -- the engine thread's side -----------------------------------------------------------------

    def elect(self, affinity: CacheAffinity) -> LaneGrant | None:
        """The oldest waiting submission, if its reservation fits; nobody overtakes it."""
        with self._lock:
            submission = self._queue.first()
            if submission is None:
                return None
            request = submission.request
            reservation = self._budget.try_reserve(
                prompt_tokens=len(request.prompt_token_ids), max_tokens=request.max_tokens
            )
            if reservation is None:
                return None
            self._queue.remove(submission)
            grant = LaneGrant(self, submission, reservation)
            self._grants.add(grant)
            return grant

    def _release(self, grant: LaneGrant, reservation: Reservation) -> None:
        with self._lock:
            self._grants.discard(grant)
            reservation.release()

    def close(self, error: SkippyError) -> list[Submission]:
        """Refuse newcomers with `error` from now on; the first reason given stays. Returns all that
        waited: the caller answers them."""
        with self._lock:
            if self._closed is None:
                self._closed = error
            waiting = self._queue.take_all()
        for submission in waiting:
            self._tell_rejected(submission.request.request_id, error)
        return waiting

    # -- watching ---------------------------------------------------------------------------------

    def statistics(self) -> AdmissionStatistics:
        with self._lock:
            return AdmissionStatistics(
                queue=self._queue.statistics(),
                budget=self._budget.statistics(),
                num_granted=len(self._grants),
                num_lanes=self._num_lanes,
                is_open=self._closed is None,
            )

    def check_integrity(self) -> None:
        with self._lock:
            self._budget.check_integrity()
            assert self._budget.statistics().num_reservations == len(self._grants), repr(self._budget)

    def __repr__(self) -> str:
        return f"<AdmissionController: {self._queue!r}, {self._budget!r}, {len(self._grants)} granted>"
