"""The last things that happened in this process, for those who look on: who was refused, which lanes were
taken back, what became of the adaptive limit, how requests ended. No prompt, no answer, no key."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from inference.domain.admission_events import AdmissionEvent, ConcurrencyAdapted, LaneFreed, Rejected
from inference.domain.clock import Clock
from inference.domain.outcomes import RequestSummary
from inference.domain.phases import PhaseEvent

MAX_EVENTS = 40
MAX_DECISIONS = 10
_Kept = Rejected | LaneFreed | ConcurrencyAdapted | RequestSummary


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """`at` is in Unix seconds; `text` is for people; `request_id` is empty where it belongs to none."""

    at: float
    kind: str
    text: str
    request_id: str


class RecentEvents:
    """A Recorder that keeps the last few and forgets the rest. Any thread: it appends what happened as it
    is, and words are made of it only when somebody reads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: deque[tuple[float, Rejected | LaneFreed | RequestSummary]] = deque(maxlen=MAX_EVENTS)
        self._decisions: deque[tuple[float, ConcurrencyAdapted]] = deque(maxlen=MAX_DECISIONS)

    def record(self, summary: RequestSummary) -> None:
        self._events.append((self._clock.unix_time(), summary))

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        if isinstance(event, ConcurrencyAdapted):
            self._decisions.append((self._clock.unix_time(), event))
        elif isinstance(event, Rejected | LaneFreed):
            self._events.append((self._clock.unix_time(), event))

    def events(self) -> list[RecentEvent]:
        """Newest first."""
        return [_told(at, event) for at, event in reversed(self._events.copy())]

    def decisions(self) -> list[RecentEvent]:
        """What was decided about adaptive limits, newest first."""
        return [_told(at, event) for at, event in reversed(self._decisions.copy())]

    def __repr__(self) -> str:
        return f"<RecentEvents {len(self._events)} events, {len(self._decisions)} decisions>"


def _told(at: float, event: _Kept) -> RecentEvent:
    match event:
        case Rejected():
            text = f"refused: {event.reason.value}, {event.queue_depth} of {event.queue_capacity} wait"
            return RecentEvent(at, "refused", text, event.request_id)
        case LaneFreed():
            return RecentEvent(at, "lane freed", f"lane freed: {event.outcome.value}", event.request_id)
        case ConcurrencyAdapted():
            change = f"{event.previous_limit} → {event.current_limit} of {event.max_limit}"
            text = " · ".join([part for part in (event.model, f"{change}: {event.reason.value}") if part])
            return RecentEvent(at, event.action.value, text, "")
        case RequestSummary():
            why = event.error_code or (event.finish_reason.value if event.finish_reason else "")
            parts = [event.endpoint, event.model, event.outcome.value, why, f"{event.total_s:.1f} s"]
            return RecentEvent(at, "ended", " · ".join([part for part in parts if part]), event.request_id)
