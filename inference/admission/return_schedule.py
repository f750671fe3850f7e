"""When shall those come back who were refused? Not all at once, and not at the whim of one of them.

After a minute of too much load, everybody who was told the same time would be back at the same time, and
be refused again. So the time that a refused request would take is booked behind those that were
refused before it, and its sender is told when its turn will have come. Bookings leave half of the
time to newcomers. They end as soon as a lane is free and nobody waits: whoever was told to come back has
been served, or has not come.

A client that asks again and again without waiting books at each refusal. Of other users' bookings
therefore only so much goes before a user's as it will have booked itself: the turns are those that a
queue would give which serves users alternately.
"""

from __future__ import annotations

# Of the time that is booked, so much is left to those who have not been refused before.
SHARE_OF_NEWCOMERS = 0.5
# Nobody is told to wait longer, so nothing is booked behind it.
MAX_BOOKED_S = 300.0
# Its multiples, without the whole numbers, are spread evenly however many there are.
GOLDEN_RATIO = 0.6180339887
# Less than this is as good as nothing.
LEAST_BOOKED_S = 1e-6


class ReturnSchedule:
    """Not thread-safe by itself: the controller's mutex guards it.

    `booked_s` holds seconds by user, of the time that begins at `front_ts`, where those who are here
    will be through.
    """

    def __init__(self) -> None:
        self._front_ts = 0.0
        self._booked_s: dict[int, float] = {}
        self._num_unbooked = 0

    def book(self, *, user_id: int, now_ts: float, wait_s: float, service_s: float) -> float:
        """Seconds until a refused request should come back. `wait_s` is what it would wait for those
        who are here, `service_s` what it adds to the wait of others."""
        self._advance(now_ts + wait_s)
        needed_s = service_s / (1 - SHARE_OF_NEWCOMERS)
        own_s = self._booked_s.get(user_id, 0.0)
        before_s = own_s + sum(
            min(booked_s, own_s + needed_s)
            for other_id, booked_s in self._booked_s.items()
            if other_id != user_id
        )
        told_s = self._front_ts + before_s - now_ts
        if told_s > MAX_BOOKED_S:
            return self._anywhere(wait_s)
        self._booked_s[user_id] = own_s + needed_s
        return told_s

    def _advance(self, front_ts: float) -> None:
        """What was booked for the time before is over, of everybody's the same share."""
        if not self._booked_s:
            self._front_ts = front_ts
            return
        passed_s = front_ts - self._front_ts
        if passed_s <= 0:
            return
        self._front_ts = front_ts
        left = max(1 - passed_s / sum(self._booked_s.values()), 0.0)
        self._booked_s = {
            user_id: booked_s * left
            for user_id, booked_s in self._booked_s.items()
            if booked_s * left >= LEAST_BOOKED_S
        }

    def _anywhere(self, wait_s: float) -> float:
        """All is booked: evenly among the others, where each is the least likely to be one too many."""
        self._num_unbooked += 1
        share = self._num_unbooked * GOLDEN_RATIO % 1
        return wait_s + share * max(MAX_BOOKED_S - wait_s, 0.0)

    def clear(self) -> None:
        """A lane is free and nobody waits."""
        self._booked_s.clear()

    def __repr__(self) -> str:
        return f"<ReturnSchedule: {sum(self._booked_s.values()):.1f} s of {len(self._booked_s)} users>"
