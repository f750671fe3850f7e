"""The one waiting list in front of an engine: bounded, first come first served."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from inference.domain.admission import Submission
from inference.domain.errors import ServerOverloaded
from inference.domain.rejection_reason import RejectionReason

MIN_QUEUE, MAX_QUEUE, QUEUE_PER_LANE = 16, 256, 8


def default_max_queue(num_lanes: int) -> int:
    """clamp(8 × lanes, 16, 256): room for a burst, but not for waits that nobody sits out."""
    return min(max(QUEUE_PER_LANE * num_lanes, MIN_QUEUE), MAX_QUEUE)


@dataclass(frozen=True, slots=True)
class AdmissionQueueStatistics:
    num_waiting: int
    max_waiting: int


class AdmissionQueue:
    """Submissions that wait for a lane and cells, oldest first.

    Not thread-safe by itself: the controller's mutex guards it.
    """

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._waiting: OrderedDict[Submission, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, submission: Submission, *, num_free_lanes: int) -> None:
        """Append, or raise ServerOverloaded. Lanes that are free but not yet handed out by the
        engine's next step count as room, so that a burst into an idle service is not refused."""
        self.check_room(num_free_lanes=num_free_lanes)
        self._waiting[submission] = None

    def check_room(self, *, num_free_lanes: int) -> None:
        if len(self._waiting) >= self._max_waiting + num_free_lanes:
            raise ServerOverloaded(
                f"The queue is full: {len(self._waiting)} requests are waiting. Please retry later.",
                reason=RejectionReason.QUEUE_FULL,
            )

    def first(self) -> Submission | None:
        return next(iter(self._waiting), None)

    def remove(self, submission: Submission) -> bool:
        """Take it out, wherever it stands. False if it does not wait (any more)."""
        try:
            del self._waiting[submission]
        except KeyError:
            return False
        return True

    def take_all(self) -> list[Submission]:
        everyone = list(self._waiting)
        self._waiting.clear()
        return everyone

    def statistics(self) -> AdmissionQueueStatistics:
        return AdmissionQueueStatistics(len(self._waiting), self._max_waiting)

    def __repr__(self) -> str:
        return f"<AdmissionQueue: {len(self._waiting)} waiting, at most {self._max_waiting}>"
