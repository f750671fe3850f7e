"""The places of those who look on: taken once each, given back once, and taken away by the board."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

MAX_SEATS = 200
"""In one process. A snapshot costs each of them a fraction of a millisecond, and a session may have any
number of pages open."""


class Dismissal(Enum):
    """Why somebody may look on no longer."""

    NO_RIGHT = "no right"
    """The session has ended, or its user may not view records any more."""
    BOARD_FAILED = "board failed"
    """No snapshots come any more; whoever comes anew starts them anew."""


class SeatsTaken(Exception):
    """As many as there may be look on already."""


class Dismissed(Exception):
    """The seat was taken away."""

    def __init__(self, dismissal: Dismissal) -> None:
        super().__init__(dismissal.value)
        self.dismissal = dismissal


class Seat:
    """One socket's place. `dismissal` is None as long as it may be sat on."""

    __slots__ = ("dismissal", "session")

    def __init__(self, session: str) -> None:
        self.session = session
        self.dismissal: Dismissal | None = None

    def check(self) -> None:
        """Raises Dismissed."""
        if self.dismissal is not None:
            raise Dismissed(self.dismissal)


class Seats:
    """All of one process. Event loop only."""

    def __init__(self, max_seats: int = MAX_SEATS) -> None:
        self._max_seats = max_seats
        self._taken: set[Seat] = set()

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def sessions(self) -> set[str]:
        return {seat.session for seat in self._taken}

    @contextmanager
    def taken(self, session: str) -> Iterator[Seat]:
        """A seat for as long as the block lasts. Raises SeatsTaken."""
        if len(self._taken) >= self._max_seats:
            raise SeatsTaken
        seat = Seat(session)
        self._taken.add(seat)
        try:
            yield seat
        finally:
            self._taken.discard(seat)

    def dismiss(self, dismissal: Dismissal, sessions: set[str] | None = None) -> None:
        """Take away the seats of these sessions, of all where none are named."""
        for seat in [one for one in self._taken if sessions is None or one.session in sessions]:
            seat.dismissal = dismissal
            self._taken.discard(seat)
