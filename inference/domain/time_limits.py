"""How long a request may take, and how long its parts may: separate limits for separate faults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds; 0 is no limit, and for the two about streams never.

    `request_s` is for the whole request, `admission_s` for the wait until it has a lane (its session's
    turn and the queue together), `send_s` for one message that the client does not take. A stream whose
    wait is longer than `early_headers_s` gets its headers meanwhile, and a silent stream a comment
    every `keep_alive_s`. `token_gap_s` is for the next token of an answer that has begun.
    """

    request_s: float = 600.0
    admission_s: float = 60.0
    send_s: float = 10.0
    early_headers_s: float = 15.0
    keep_alive_s: float = 15.0
    token_gap_s: float = 0.0

    def of_request(self, wished_s: float | None) -> float | None:
        """The limit of one request: what its caller wished, if that is shorter; None for none."""
        limits = [limit for limit in (self.request_s, wished_s) if limit]
        return min(limits, default=None)
