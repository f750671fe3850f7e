"""What other threads ask of sequences, kept until the next step: only the engine thread may touch one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inference.domain.admission import Submission
from inference.domain.backend import HoldReason


@dataclass(frozen=True, slots=True)
class HoldOrder:
    """Hold a sequence for one more reason, or resume it for one less."""

    reason: HoldReason
    is_held: bool


@dataclass(frozen=True, slots=True)
class InjectionOrder:
    """Put tokens into a sequence that stands still for its signals."""

    token_ids: tuple[int, ...]


class Inbox:
    """Anybody may put in, at any time: also for what has not started yet or has long ended. Only the
    engine thread takes out."""

    def __init__(self) -> None:
        self._cancelled: deque[Submission] = deque()
        # One line for both, since what is injected belongs before the resuming that was asked after it.
        self._orders: deque[tuple[Submission, HoldOrder | InjectionOrder]] = deque()
        self.on_wake: Callable[[], None] = lambda: None
        """What makes the engine thread look; set by whoever runs it."""

    def wake(self) -> None:
        """There is something new to do that is not in here. From any thread."""
        self.on_wake()

    def cancel(self, submission: Submission) -> None:
        """Drop its sequence at the next step."""
        self._cancelled.append(submission)

    def hold(self, submission: Submission, reason: HoldReason) -> None:
        """Let its sequence stand still from the next step on, for one more reason."""
        self._orders.append((submission, HoldOrder(reason, is_held=True)))

    def resume(self, submission: Submission, reason: HoldReason) -> None:
        """One reason less; without any, its sequence goes on at the next step."""
        self._orders.append((submission, HoldOrder(reason, is_held=False)))

    def inject(self, submission: Submission, token_ids: tuple[int, ...]) -> None:
        """Put these into its sequence, in order with what is asked before and behind."""
        self._orders.append((submission, InjectionOrder(token_ids)))

    def take_cancelled(self) -> Iterator[Submission]:
        """What was cancelled since the last time."""
        while self._cancelled:
            yield self._cancelled.popleft()

    def take_orders(self) -> Iterator[tuple[Submission, HoldOrder | InjectionOrder]]:
        """What was asked since the last time, in order. The `holds` of a submission are brought up to date:
        it keeps its reasons itself, so those that wait in the queue need no place here."""
        while self._orders:
            submission, order = self._orders.popleft()
            if isinstance(order, HoldOrder):
                if order.is_held:
                    submission.holds.add(order.reason)
                else:
                    submission.holds.discard(order.reason)
            yield submission, order

    def __repr__(self) -> str:
        return f"<Inbox {len(self._cancelled)} cancelled, {len(self._orders)} orders>"
