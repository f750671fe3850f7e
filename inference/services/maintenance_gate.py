"""Keeps newcomers out while the service is under maintenance, and lets in whom the administrator named.

What runs is never touched. What waits goes on as well, unless the administrator wished otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference.domain.admission_events import Rejected
from inference.domain.clock import Clock
from inference.domain.errors import UnderMaintenance
from inference.domain.ledger import LiveRequest
from inference.domain.maintenance import OPEN, Maintenance
from inference.domain.outcomes import Recorder
from inference.domain.rejection_reason import RejectionReason


class MaintenanceGate:
    """For one event loop."""

    def __init__(self, *, recorder: Recorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock
        self.now = OPEN
        """What was said last."""

    def __repr__(self) -> str:
        return f"<MaintenanceGate {'closed' if self.now.is_on else 'open'}>"

    def take(self, said: Maintenance, live: Iterable[LiveRequest]) -> None:
        """From now on that holds. `live` are the requests of this process that have not ended."""
        self.now = said
        if not (said.is_on and said.refuses_queued):
            return
        for request in list(live):
            if request.is_running:
                continue
            known = request.summary_now()
            if not said.lets(user_id=known.user_id, key_id=known.key_id):
                request.interrupt(self._refusal(known.request_id))

    def check(self, *, request_id: str, user_id: int, key_id: int) -> None:
        """Raises UnderMaintenance for a newcomer who is not let in."""
        if not self.now.lets(user_id=user_id, key_id=key_id):
            raise self._refusal(request_id)

    def _refusal(self, request_id: str) -> UnderMaintenance:
        self._recorder.record_event(Rejected(request_id, RejectionReason.MAINTENANCE, 0, 0, None))
        return self.now.refusal(unix_time=self._clock.unix_time())
