"""Under which names the events of admission and streaming are published.

Dashboards and traces of the family of servers that this one belongs to know these events by fixed
names; in code they have ours. This is the one place that knows both. Durations are published in
milliseconds, what was not known is left out.
"""

from __future__ import annotations

from inference.domain.admission_events import (
    AdmissionEvent,
    Admitted,
    ConcurrencyAdapted,
    LaneFreed,
    Rejected,
)

Attribute = str | int | float | bool

DEPTH = "llama_stage.generation_queue_depth"
CAPACITY = "llama_stage.generation_queue_capacity"
PREDICTED_WAIT = "llama_stage.generation_predicted_wait_ms"
REQUEST_ID = "skippy.request_id"


def event_name(event: AdmissionEvent) -> str:
    match event:
        case Admitted():
            return "stage.openai_generation_admit"
        case Rejected():
            return "stage.openai_generation_admission_rejected"
        case ConcurrencyAdapted():
            return "stage.openai_generation_concurrency_adapt"
        case LaneFreed():
            return "stage.openai_stream_lane_freed"


def event_attributes(event: AdmissionEvent) -> dict[str, Attribute]:
    """The event's numbers under their published names."""
    match event:
        case Admitted():
            found = _admitted(event)
        case Rejected():
            found = _rejected(event)
        case ConcurrencyAdapted():
            found = _adapted(event)
        case LaneFreed():
            found = _lane_freed(event)
    return {name: value for name, value in found.items() if value is not None}


def _admitted(event: Admitted) -> dict[str, Attribute | None]:
    return {
        REQUEST_ID: event.request_id,
        "llama_stage.openai_phase": "generation_admit",
        DEPTH: event.queue_depth,
        "skippy.scheduler.admission_waiting": event.queue_depth,
        CAPACITY: event.queue_capacity,
        PREDICTED_WAIT: _ms(event.predicted_wait_s),
        "llama_stage.elapsed_ms": _ms(event.wait_s),
        "skippy.admission.has_waited": event.has_waited,
        "llama_stage.kv_reserved_tokens": event.num_reserved_tokens,
        "llama_stage.kv_active_reserved_tokens": event.num_active_tokens,
        "llama_stage.kv_capacity_tokens": event.num_capacity_tokens,
    }


def _rejected(event: Rejected) -> dict[str, Attribute | None]:
    return {
        REQUEST_ID: event.request_id,
        DEPTH: event.queue_depth,
        CAPACITY: event.queue_capacity,
        "llama_stage.generation_admission_status": "rejected",
        "llama_stage.generation_admission_error": event.reason.value,
        PREDICTED_WAIT: _ms(event.predicted_wait_s),
    }


def _adapted(event: ConcurrencyAdapted) -> dict[str, Attribute | None]:
    concurrency = "llama_stage.generation_concurrency_"
    return {
        f"{concurrency}action": event.action.value,
        f"{concurrency}reason": event.reason.value,
        f"{concurrency}previous": event.previous_limit,
        f"{concurrency}current": event.current_limit,
        f"{concurrency}ceiling": event.max_limit,
        "llama_stage.generation_throughput_tokens_per_second": event.tokens_per_s,
        "llama_stage.generation_p95_latency_ms": _ms(event.p95_latency_s),
        "llama_stage.generation_p95_hardware_ms_per_token": _ms(event.p95_hardware_s_per_token),
        "llama_stage.generation_throughput_improvement": event.throughput_improvement,
        "llama_stage.generation_p95_latency_ratio": event.p95_latency_ratio,
        "llama_stage.generation_hardware_pressure_ratio": event.hardware_pressure_ratio,
        "llama_stage.generation_observed_requests": event.num_observed,
        "llama_stage.generation_saturated_requests": event.num_saturated,
    }


def _lane_freed(event: LaneFreed) -> dict[str, Attribute | None]:
    return {
        REQUEST_ID: event.request_id,
        "skippy.stream.outcome": event.outcome.value,
        "skippy.stream.frame_kind": event.frame_kind.value,
        "skippy.stream.stall_timeout_ms": round(event.stall_limit_s * 1000),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
