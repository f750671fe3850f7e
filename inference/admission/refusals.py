"""What somebody is told who cannot be admitted: why, and when to come back."""

from __future__ import annotations

from inference.admission.estimator import retry_after_s
from inference.domain.errors import ContextLengthExceeded, ServerOverloaded
from inference.domain.rejection_reason import RejectionReason


def never_fits(*, num_needed_tokens: int, num_capacity_tokens: int) -> ContextLengthExceeded:
    """It could not run even alone."""
    return ContextLengthExceeded(
        f"This request needs {num_needed_tokens} tokens of context, but only {num_capacity_tokens} exist.",
        reason=RejectionReason.NEVER_FITS,
    )


def queue_full(*, num_waiting: int, return_s: float | None) -> ServerOverloaded:
    return _overloaded(
        f"The queue is full: {num_waiting} requests are waiting.",
        RejectionReason.QUEUE_FULL,
        return_s,
    )


def too_late(*, predicted_wait_s: float, allowed_s: float, return_s: float | None) -> ServerOverloaded:
    """It would get its lane only after its deadline."""
    return _overloaded(
        f"This request would wait about {predicted_wait_s:.3f} seconds, but it has only {allowed_s:.3f}.",
        RejectionReason.PREDICTED_WAIT,
        return_s,
    )


def overdue(*, allowed_s: float, return_s: float | None) -> ServerOverloaded:
    """Its deadline has come."""
    return _overloaded(
        f"No lane was free within {allowed_s:.0f} seconds.",
        RejectionReason.ADMISSION_TIMEOUT,
        return_s,
    )


def _overloaded(message: str, reason: RejectionReason, return_s: float | None) -> ServerOverloaded:
    return ServerOverloaded(
        f"{message} Please retry later.", retry_after_s=retry_after_s(return_s), reason=reason
    )
