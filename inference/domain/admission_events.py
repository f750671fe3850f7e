"""What admission tells of its decisions, with the numbers that led to them.

An operator asks why a request waited, was refused, or why fewer of them run than there are lanes.
Each answer is one frozen event, given to the `Recorder`; telemetry knows under which names the
numbers are published.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from inference.domain.rejection_reason import RejectionReason


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request got its lane and its KV tokens.

    `queue_depth` others wait of at most `queue_capacity`. `predicted_wait_s` is what was foreseen
    when it came (0 where it did not have to wait, None where nothing was known), `wait_s` what came
    true. `num_reserved_tokens` are its own, `num_active_tokens` all reserved ones with it.
    """

    request_id: str
    queue_depth: int
    queue_capacity: int
    has_waited: bool
    wait_s: float
    predicted_wait_s: float | None
    num_reserved_tokens: int
    num_active_tokens: int
    num_capacity_tokens: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A request was refused, or taken out of the queue, before it had a lane. `predicted_wait_s` is that
    of one who would go last."""

    request_id: str
    reason: RejectionReason
    queue_depth: int
    queue_capacity: int
    predicted_wait_s: float | None


class LimitAction(Enum):
    """What was done with the number of requests that may run at once."""

    PROBE = "probe"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    BACKOFF = "backoff"
    HOLD = "hold"


class LimitReason(Enum):
    """Why it was done; the words are part of what is published."""

    HARDWARE_HEADROOM = "hardware-headroom"
    PROBE_HEALTHY = "probe-healthy"
    HARDWARE_BACKPRESSURE = "hardware-backpressure"
    LATENCY_REGRESSION = "p95-latency-regression"
    NOT_IMPROVED = "retirement-not-improved"
    DEMAND_ENDED = "trial-demand-ended"
    GENERATION_FAILURE = "generation-failure"
    FAILURE_AT_MINIMUM = "generation-failure-at-minimum"
    NO_SUSTAINED_DEMAND = "insufficient-sustained-demand"
    COOLDOWN = "reprobe-cooldown"
    CEILING_REACHED = "hard-ceiling-reached"
    ROLLBACK_DRAINING = "rollback-draining"
    RELIEF = "latency-relief"
    RELIEF_OPEN = "relief-open"
    RELIEF_HEALTHY = "relief-healthy"
    RELIEF_COSTS = "relief-not-worth-it"


@dataclass(frozen=True, slots=True)
class ConcurrencyAdapted:
    """The adaptive limit was decided upon, perhaps to stay.

    `tokens_per_s`, the 95th percentiles of a request's latency and of its time for one computed
    token ("hardware") are of the window that led to it; `throughput_improvement` (0.03 is 3 % more)
    and the two ratios compare it with the window before. None where there was nothing to measure or
    to compare. Of `num_observed` completed requests, `num_saturated` saw others waiting. `model` is the
    id of the model whose limit it is, empty until who hosts it has said so.
    """

    action: LimitAction
    reason: LimitReason
    previous_limit: int
    current_limit: int
    max_limit: int
    tokens_per_s: float | None = None
    p95_latency_s: float | None = None
    p95_hardware_s_per_token: float | None = None
    throughput_improvement: float | None = None
    p95_latency_ratio: float | None = None
    hardware_pressure_ratio: float | None = None
    num_observed: int | None = None
    num_saturated: int | None = None
    model: str = ""


class ReceiverOutcome(Enum):
    """What is wrong with a reader to whom nothing can be delivered any more."""

    DROPPED = "receiver_dropped"
    STALLED = "receiver_stalled"


class FrameKind(Enum):
    """What could not be delivered: a part of the answer, or what ends it."""

    IN_FLIGHT = "in_flight"
    TERMINAL = "terminal"


@dataclass(frozen=True, slots=True)
class LaneFreed:
    """A lane was taken from a request because its reader is gone or has stalled."""

    request_id: str
    outcome: ReceiverOutcome
    frame_kind: FrameKind
    stall_limit_s: float


AdmissionEvent = Admitted | Rejected | ConcurrencyAdapted | LaneFreed
