"""Why a request was not admitted, for the record: one status may stand for several of these."""

from __future__ import annotations

from enum import Enum


class RejectionReason(Enum):
    """The machine-readable reason of a refusal; the message is for people."""

    NEVER_FITS = "never_fits"
    QUEUE_FULL = "queue_full"
    PREDICTED_WAIT = "predicted_wait"
    ADMISSION_TIMEOUT = "admission_timeout"
    DRAINING = "draining"
