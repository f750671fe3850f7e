"""Why a call came to nothing: a few words for records and metrics, and what follows from them."""

from __future__ import annotations

from enum import StrEnum


class FailureReason(StrEnum):
    """The words of WebhookFailed, and the label in metrics."""

    UNKNOWN = "no such webhook"
    NOT_ALLOWED = "its address may not be called"
    CIRCUIT_OPEN = "it failed too often and is not asked for a while"
    NO_PLACE = "too many calls at once"
    UNSENDABLE = "the request makes no body that may be sent"
    NOT_REACHED = "not reached"
    TIMED_OUT = "no answer in time"
    LOST = "the connection ended before the answer"
    STATUS = "it answered with an error"
    TOO_LARGE = "its answer is too large"
    NOT_UNDERSTOOD = "its answer is not understood"
    STOPPED = "the service stops"


class CallFailure(Exception):
    """One try failed. `is_down` counts towards the circuit breaker: whoever sends a request must not be able
    to open it for everybody with what he writes, so it is only what says that the webhook is away, and not an
    answer that is wrong or of status 500. `can_retry`: trying again cannot do anything twice that matters.
    """

    def __init__(self, reason: FailureReason, *, is_down: bool = False, can_retry: bool = False) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.is_down = is_down
        self.can_retry = can_retry


class KeptConnectionEnded(CallFailure):
    """A connection that was kept from an earlier call turns out to be closed, before a byte of the answer:
    the usual race with a server that closes idle ones. The same call is sent again at once, on a new one."""

    def __init__(self) -> None:
        super().__init__(FailureReason.LOST, is_down=True, can_retry=True)
