"""However the others are ranked, nobody is passed over for ever.

Contenders take turns; whoever is there while 32 turns go to others must not be passed over by anybody
who came later. From then on the longest waiting one is the only candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

MAX_BYPASSES = 32

T = TypeVar("T")


class BypassBound(Generic[T]):
    """The contenders of one level (classes, the users of a class, the waiters of a user), in the order
    in which they came or were last served."""

    def __init__(self) -> None:
        self.turn = 0
        self._since: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[T]:
        """The longest waiting one first."""
        return iter(self._since)

    def __contains__(self, contender: T) -> bool:
        return contender in self._since

    def join(self, contender: T) -> None:
        self._since[contender] = self.turn

    def leave(self, contender: T) -> None:
        del self._since[contender]

    def take_turn(self, contender: T) -> None:
        """It was served. It stands last again, until it leaves."""
        self.turn += 1
        del self._since[contender]
        self._since[contender] = self.turn

    def age(self, contender: T) -> int:
        """Turns of others since it came or was served."""
        return self.turn - self._since[contender]

    def starving(self) -> T | None:
        """The one that nobody may pass over any more, if there is one."""
        # Turns only grow, so the first in the dictionary has the oldest.
        senior = next(iter(self._since), None)
        return senior if senior is not None and self.age(senior) >= MAX_BYPASSES else None
