"""How long the next try has to wait.

A fixed limit (so many an hour) locks people out as long as it locks out guessers. Pauses that grow cost a
person who mistypes a few seconds, and leave whoever guesses some hundred tries a day. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

FIRST_PAUSE = timedelta(seconds=15)
# Without a failure for so long, the count begins anew.
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AttemptRule:
    """`num_free` failures without a pause; then 15 s, doubled with each failure, `max_pause` at most."""

    num_free: int
    max_pause: timedelta

    def pause_after(self, num_failed: int) -> timedelta:
        """What the failure with this number costs."""
        beyond = num_failed - self.num_free
        if beyond < 0:
            return timedelta(0)
        pause: timedelta = FIRST_PAUSE * 2 ** min(beyond, 16)
        return min(pause, self.max_pause)


# One name from one address, or from a browser in which this user has signed in before; codes of one user.
ONE_OF_ONE = AttemptRule(num_free=5, max_pause=timedelta(minutes=15))
# All names from one address: many people may share it.
ADDRESS = AttemptRule(num_free=20, max_pause=timedelta(minutes=15))
# One name from everywhere: whoever guesses from many addresses. The pause stays short, since it also holds up
# the owner of the name where he has never signed in before.
NAME = AttemptRule(num_free=50, max_pause=timedelta(minutes=2))
