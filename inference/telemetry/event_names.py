"""Under which names what happens is published.

Dashboards and traces of the family of servers that this one belongs to know these events by fixed
names; in code they have ours. This is the one place that knows both. Durations are published in
milliseconds, what was not known is left out. What OpenTelemetry has a name for (its semantic
conventions for GenAI) has that one too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inference.domain.admission_events import (
    AdmissionEvent,
    Admitted,
    ConcurrencyAdapted,
    LaneFreed,
    Rejected,
)
from inference.domain.outcomes import Outcome, RequestSummary
from inference.domain.phases import (
    ChatTemplateRendered,
    MediaEncoded,
    PhaseEvent,
    PoliciesAsked,
    PoliciesConcluded,
    PromptPrepared,
    ResponseBuilt,
    Tokenized,
)
from inference.domain.telemetry_event import Attribute
from inference.domain.telemetry_level import TelemetryLevel

DEPTH = "llama_stage.generation_queue_depth"
CAPACITY = "llama_stage.generation_queue_capacity"
PREDICTED_WAIT = "llama_stage.generation_predicted_wait_ms"
REQUEST_ID = "skippy.request_id"
PHASE = "llama_stage.openai_phase"
ELAPSED = "llama_stage.elapsed_ms"
FINISH_REASONS = "gen_ai.response.finish_reasons"

_OPERATIONS = {
    "chat.completions": ("chat_completion", "chat"),
    "completions": ("completion", "text_completion"),
    "embeddings": ("embeddings", "embeddings"),
    "messages": ("messages", "chat"),
    "rerank": ("rerank", "rerank"),
    "responses": ("responses", "chat"),
}
"""By endpoint: the operation's published name, and OpenTelemetry's gen_ai.operation.name."""

_NAMES = {
    Admitted: "stage.openai_generation_admit",
    Rejected: "stage.openai_generation_admission_rejected",
    ConcurrencyAdapted: "stage.openai_generation_concurrency_adapt",
    LaneFreed: "stage.openai_stream_lane_freed",
    ChatTemplateRendered: "stage.openai_chat_template",
    Tokenized: "stage.openai_tokenize",
    PromptPrepared: "stage.openai_prompt_prepare",
    MediaEncoded: "stage.openai_media_prefill",
    ResponseBuilt: "stage.openai_response_build",
    PoliciesAsked: "stage.openai_hooks",
    PoliciesConcluded: "stage.openai_hooks_terminal",
    RequestSummary: "stage.openai_request_summary",
}
TOKEN_ADMIT_EVENT = "stage.openai_generation_token_admit"  # noqa: S105 (no password)
REQUEST_SUMMARY = _NAMES[RequestSummary]
_SUMMARY_EVENTS = (Rejected, ConcurrencyAdapted, LaneFreed, PoliciesConcluded, RequestSummary)

Happened = AdmissionEvent | PhaseEvent | RequestSummary


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """What happened, in the published words. `elapsed_s` None: it has no length."""

    name: str
    level: TelemetryLevel
    request_id: str
    attributes: dict[str, Attribute]
    elapsed_s: float | None = None


def level_of(happened: Happened) -> TelemetryLevel:
    """From which level on it is told: an operator's events at summary, phases of requests at debug."""
    return TelemetryLevel.SUMMARY if isinstance(happened, _SUMMARY_EVENTS) else TelemetryLevel.DEBUG


def published_events(happened: Happened, level: TelemetryLevel) -> Iterator[PublishedEvent]:
    """What is told of it at `level`: nothing, one event, or two (lane and tokens are granted together
    here, and were two events once)."""
    own = level_of(happened)
    if own > level:
        return
    request_id = "" if isinstance(happened, ConcurrencyAdapted) else happened.request_id
    attributes = event_attributes(happened)
    elapsed_s = _elapsed_s(happened)
    yield PublishedEvent(event_name(happened), own, request_id, attributes, elapsed_s)
    if isinstance(happened, Admitted):
        tokens = {**attributes, PHASE: "generation_token_admit"}
        yield PublishedEvent(TOKEN_ADMIT_EVENT, own, request_id, tokens, elapsed_s)


def event_name(happened: Happened) -> str:
    return _NAMES[type(happened)]


def event_attributes(happened: Happened) -> dict[str, Attribute]:
    """The event's numbers under their published names."""
    match happened:
        case Admitted():
            found = _admitted(happened)
        case Rejected():
            found = _rejected(happened)
        case ConcurrencyAdapted():
            found = _adapted(happened)
        case LaneFreed():
            found = _lane_freed(happened)
        case RequestSummary():
            found = _summary(happened)
        case _:
            found = _phase(happened)
    return {name: value for name, value in found.items() if value is not None}


def _elapsed_s(happened: Happened) -> float | None:
    match happened:
        case Admitted():
            return happened.wait_s
        case RequestSummary():
            return happened.total_s
        case Rejected() | ConcurrencyAdapted() | LaneFreed():
            return None
        case _:
            return happened.elapsed_s


def _phase(event: PhaseEvent) -> dict[str, Attribute | None]:
    found: dict[str, Attribute | None] = {
        REQUEST_ID: event.request_id,
        PHASE: _NAMES[type(event)].removeprefix("stage.openai_"),
        ELAPSED: _ms(event.elapsed_s),
    }
    match event:
        case ChatTemplateRendered():
            found["llama_stage.message_count"] = event.num_messages
            # Bytes under a name that says characters: so it is in the traces that people have.
            found["llama_stage.prompt_chars"] = event.num_prompt_bytes
        case Tokenized() | PromptPrepared():
            found["llama_stage.prompt_tokens"] = event.num_tokens
        case MediaEncoded():
            found["llama_stage.media_count"] = event.num_items
            found["llama_stage.media_tokens"] = event.num_tokens
        case ResponseBuilt():
            found["llama_stage.response_bytes"] = event.num_bytes
            found["llama_stage.openai_stream"] = event.is_stream
        case PoliciesAsked():
            found["skippy.hooks.point"] = event.point
            found["skippy.hooks.decisions"] = event.num_decisions
            found["skippy.hooks.choice"] = event.choice
        case PoliciesConcluded():
            found["skippy.hooks.policies"] = ", ".join(event.policies)
            found["skippy.hooks.tags"] = ", ".join(event.tags) or None
    return found


def _summary(summary: RequestSummary) -> dict[str, Attribute | None]:
    operation, gen_ai = _OPERATIONS.get(summary.endpoint, (summary.endpoint, summary.endpoint))
    usage = summary.usage
    reason = summary.finish_reason.value if summary.finish_reason else None
    is_ok = summary.outcome is Outcome.COMPLETED
    return {
        REQUEST_ID: summary.request_id,
        "llama_stage.openai_operation": f"{operation}_stream" if summary.is_stream else operation,
        "llama_stage.openai_backend": "local-runtime",
        ELAPSED: _ms(summary.total_s),
        "llama_stage.started_ms": _ms(summary.started_s),
        "llama_stage.first_token_ms": _ms(summary.first_token_s),
        "llama_stage.openai_status": summary.status,
        "skippy.request.outcome": summary.outcome.value,
        "skippy.request.error_code": summary.error_code,
        "skippy.request.rejection_reason": (
            summary.rejection_reason.value if summary.rejection_reason else None
        ),
        "skippy.kv.cached_prompt_tokens": usage.cached_tokens if usage else None,
        "skippy.hooks.decisions": len(summary.hook_decisions) or None,
        "skippy.hooks.injected_tokens": (usage.injected_tokens or None) if usage else None,
        "gen_ai.provider.name": "skippy",
        "gen_ai.operation.name": gen_ai,
        "gen_ai.request.model": summary.model or None,
        FINISH_REASONS: reason,
        "gen_ai.usage.input_tokens": usage.prompt_tokens if usage else None,
        "gen_ai.usage.output_tokens": usage.completion_tokens if usage else None,
        "error.type": None if is_ok else summary.error_code or summary.outcome.value,
    }


def _admitted(event: Admitted) -> dict[str, Attribute | None]:
    return {
        REQUEST_ID: event.request_id,
        PHASE: "generation_admit",
        DEPTH: event.queue_depth,
        "skippy.scheduler.admission_waiting": event.queue_depth,
        CAPACITY: event.queue_capacity,
        PREDICTED_WAIT: _ms(event.predicted_wait_s),
        ELAPSED: _ms(event.wait_s),
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
        "gen_ai.request.model": event.model or None,
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
