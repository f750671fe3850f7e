"""What other threads ask of sequences, kept until the next step: only the engine thread may touch one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from inference.domain.admission import Submission
from inference.domain.backend import HoldReason


class Inbox:
    """Anybody may put in, at any time: also for what has not started yet or has long ended. Only the
    engine thread takes out."""

    def __init__(self) -> None:
        self._cancelled: deque[Submission] = deque()
        # To hold (True) or to resume, and for which reason.
        self._holds: deque[tuple[Submission, HoldReason, bool]] = deque()
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
        self._holds.append((submission, reason, True))

    def resume(self, submission: Submission, reason: HoldReason) -> None:
        """One reason less; without any, its sequence goes on at the next step."""
        self._holds.append((submission, reason, False))

    def take_cancelled(self) -> Iterator[Submission]:
        """What was cancelled since the last time."""
        while self._cancelled:
            yield self._cancelled.popleft()

    def take_holds(self) -> Iterator[Submission]:
        """What was asked to be held or to go on, with its `holds` brought up to date: a submission
        keeps its reasons itself, so those that wait in the queue need no place here."""
        while self._holds:
            submission, reason, is_held = self._holds.popleft()
            if is_held:
                submission.holds.add(reason)
            else:
                submission.holds.discard(reason)
            yield submission

    def __repr__(self) -> str:
        return f"<Inbox {len(self._cancelled)} cancelled, {len(self._holds)} to hold or resume>"
