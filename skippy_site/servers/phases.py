"""How long a connection may stay in each phase, so that no client can hold one for nothing.

A client that sends a byte a second looks alive to a timer that every byte resets. So each phase has
one deadline, set when it is entered and never moved; a sweep over all connections compares it with
the clock (`connections.Connections.sweep`), which costs no timer per request.

    WAITING ──first byte──▶ HEADERS ──blank line──▶ BODY ──last byte──▶ ANSWERING ──┐
       ▲                       │ refused               │ refused            │       │
       └──────── keep-alive ───┼───────────────────────┼────────────────────┼───────┘
                               ▼                       ▼                    ▼
                           LINGERING               LINGERING            FLUSHING
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Mapping

from skippy_site.servers.contract import ListenConfig


class Phase(enum.Enum):
    """What a connection is doing, from the server's side."""

    WAITING = "waiting"
    """For the first byte of a request."""
    HEADERS = "headers"
    BODY = "body"
    ANSWERING = "answering"
    """The whole request is here. How long the answer takes is the application's business."""
    FLUSHING = "flushing"
    """The last answer is written; closed as soon as the client has taken it."""
    LINGERING = "lingering"
    """Refused; what the client still sends is thrown away until it notices."""


def phase_limits(config: ListenConfig) -> Mapping[Phase, float]:
    """Seconds that each phase may last."""
    given = {
        Phase.WAITING: config.keep_alive_s,
        Phase.HEADERS: config.header_timeout_s,
        Phase.BODY: config.body_timeout_s,
        Phase.ANSWERING: 0.0,
        Phase.FLUSHING: config.stall_timeout_s,
        Phase.LINGERING: config.linger_s,
    }
    return {phase: limit or math.inf for phase, limit in given.items()}


class ConnectionClock:
    """The phase of one connection and the instant at which it has lasted too long."""

    __slots__ = ("_limits", "_now", "deadline_ts", "phase", "since_ts")

    def __init__(self, limits: Mapping[Phase, float], *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self.phase = Phase.WAITING
        self.since_ts = now()
        # A new connection has nothing to keep alive yet: it gets the time for headers only.
        self.deadline_ts = self.since_ts + limits[Phase.HEADERS]

    def enter(self, phase: Phase) -> None:
        """Begin `phase`. Entering the phase one is in changes nothing, least of all the deadline."""
        if phase is self.phase:
            return
        self.phase = phase
        self.since_ts = self._now()
        self.deadline_ts = self.since_ts + self._limits[phase]

    @property
    def is_closing(self) -> bool:
        return self.phase is Phase.FLUSHING or self.phase is Phase.LINGERING

    def __repr__(self) -> str:
        return f"<ConnectionClock {self.phase.value} for {self._now() - self.since_ts:.1f} s>"
