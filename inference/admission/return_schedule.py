"""When shall those come back who were refused? Not all at once.

After a minute of too much load, everybody who was told the same time would be back at the same time, and
be refused again. So the time that a refused request would take is booked behind those that were
refused before it, and its sender is told when its turn will have come. Bookings leave half of the
time to newcomers. They end as soon as a lane is free and nobody waits: whoever was told to come back has
been served, or has not come.
"""

from __future__ import annotations

# Of the time that is booked, so much is left to those who have not been refused before.
SHARE_OF_NEWCOMERS = 0.5
# Nobody is told to wait longer, so nothing is booked behind it.
MAX_BOOKED_S = 300.0
# Its multiples, without the whole numbers, are spread evenly however many there are.
GOLDEN_RATIO = 0.6180339887


class ReturnSchedule:
    """Not thread-safe by itself: the controller's mutex guards it."""

    def __init__(self) -> None:
        self._booked_until_ts: float | None = None
        self._num_unbooked = 0

    def book(self, *, now_ts: float, wait_s: float, service_s: float) -> float:
        """Seconds until a refused request should come back. `wait_s` is what it would wait for those
        who are here, `service_s` what it adds to the wait of others."""
        turn_ts = now_ts + wait_s
        if self._booked_until_ts is not None:
            turn_ts = max(turn_ts, self._booked_until_ts)
        if turn_ts - now_ts > MAX_BOOKED_S:
            return self._anywhere(wait_s)
        self._booked_until_ts = turn_ts + service_s / (1 - SHARE_OF_NEWCOMERS)
        return turn_ts - now_ts

    def _anywhere(self, wait_s: float) -> float:
        """All is booked: evenly among the others, where each is the least likely to be one too many."""
        self._num_unbooked += 1
        share = self._num_unbooked * GOLDEN_RATIO % 1
        return wait_s + share * max(MAX_BOOKED_S - wait_s, 0.0)

    def clear(self) -> None:
        """A lane is free and nobody waits."""
        self._booked_until_ts = None

    def __repr__(self) -> str:
        return f"<ReturnSchedule until {self._booked_until_ts}>"
