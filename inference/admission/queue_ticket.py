"""What the caller holds of a submission: its place in the queue, and its way to say what came of it."""

from __future__ import annotations

from typing import Protocol

from inference.admission.concurrency_control import Demand
from inference.admission.waiter import Waiter
from inference.domain.admission_events import AdmissionEvent
from inference.domain.timings import Timings


class TicketOffice(Protocol):
    """Where tickets come from."""

    def withdraw(self, waiter: Waiter) -> bool: ...

    def tell(self, event: AdmissionEvent) -> None: ...

    def observe_completed(self, demand: Demand, timings: Timings) -> None: ...

    def observe_failed(self) -> None: ...


class QueueTicket:
    """A domain Ticket. Event loop only."""

    __slots__ = ("_is_told", "_is_weighed", "_office", "_waiter")

    def __init__(self, office: TicketOffice, waiter: Waiter) -> None:
        self._office = office
        self._waiter = waiter
        self._is_told = False
        self._is_weighed = False

    def withdraw(self) -> bool:
        return self._office.withdraw(self._waiter)

    def note_started(self) -> None:
        admission = self._waiter.admission
        if admission is not None and not self._is_told:
            self._is_told = True
            self._office.tell(admission.event)

    def note_completed(self, timings: Timings) -> None:
        admission = self._waiter.admission
        if admission is not None and not self._is_weighed:
            self._is_weighed = True
            self._office.observe_completed(admission.demand, timings)

    def note_failed(self) -> None:
        if self._waiter.admission is not None and not self._is_weighed:
            self._is_weighed = True
            self._office.observe_failed()
