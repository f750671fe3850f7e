"""Why a request was not let in, for the record: one status may stand for several of these."""

from __future__ import annotations

from enum import Enum


class RejectionReason(Enum):
    """The machine-readable reason of a refusal; the message is for people."""

    NEVER_FITS = "never_fits"
    QUEUE_FULL = "queue_full"
    PREDICTED_WAIT = "predicted_wait"
    ADMISSION_TIMEOUT = "admission_timeout"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    PARALLEL_REQUESTS = "parallel_requests"
    TOKENS_PER_DAY = "tokens_per_day"
    TOKENS_PER_WEEK = "tokens_per_week"
    TOKENS_PER_MONTH = "tokens_per_month"
    NETWORK = "network"
