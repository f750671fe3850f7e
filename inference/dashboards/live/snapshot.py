"""What the live page shows, as it is sent: one JSON object, made once a second for all who look on."""

from __future__ import annotations

import msgspec

from inference.domain.live_requests import LiveRequestStatus
from inference.domain.model_settings import ModelStatus
from inference.hosting.loaded_model import ModelStatistics
from inference.telemetry.recent_events import RecentEvent

MAX_REQUESTS = 200


class LiveModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model in this process. Rates are tokens per second over the engine's last seconds; `num_batched`
    sequences are computed in a step; `predicted_wait_s` is that of one who would go last, None where nothing
    was measured yet."""

    id: str
    state: str
    cause: str
    num_lanes: int = 0
    num_lanes_used: int = 0
    num_cells: int = 0
    num_cells_used: int = 0
    num_cells_cached: int = 0
    num_waiting: int = 0
    max_waiting: int = 0
    num_batched: int = 0
    num_prefilling: int = 0
    num_held: int = 0
    prefill_tokens_per_s: float = 0.0
    generated_tokens_per_s: float = 0.0
    predicted_wait_s: float | None = None
    limit: int = 0
    max_limit: int = 0


class LiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request of any process. Nothing of what it says, and of its key the name alone."""

    record_id: str
    request_id: str
    user_id: int
    username: str
    key_name: str
    model: str
    endpoint: str
    phase: str
    num_input_tokens: int
    num_output_tokens: int
    max_tokens: int
    total_s: float


class LiveSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`models`, `decisions` and `events` are of the process that sends it, `requests` of all of them:
    `num_requests` in all, of which the oldest are here. `is_complete` is False where a process, or the
    database through which they are asked, did not answer. `maintenance` is what newcomers are told where the
    service is closed to them, else empty."""

    at: float
    models: list[LiveModel]
    requests: list[LiveRow]
    num_requests: int
    num_servers: int
    is_complete: bool
    maintenance: str
    decisions: list[RecentEvent]
    events: list[RecentEvent]


def live_model(id: str, status: ModelStatus | None, held: ModelStatistics | None) -> LiveModel:
    state = "unloaded" if status is None else status.state.value
    cause = "" if status is None else status.cause
    if held is None:
        return LiveModel(id=id, state=state, cause=cause)
    engine, admission = held.engine, held.admission
    return LiveModel(
        id=id,
        state=state,
        cause=cause,
        num_lanes=engine.lanes.num_lanes,
        num_lanes_used=engine.lanes.num_used,
        num_cells=engine.num_cells,
        num_cells_used=engine.num_cells_used,
        num_cells_cached=engine.num_cells_cached,
        num_waiting=admission.queue.num_waiting,
        max_waiting=admission.queue.max_waiting,
        num_batched=engine.num_runnable,
        num_prefilling=engine.num_prefilling,
        num_held=engine.num_held,
        prefill_tokens_per_s=round(engine.recent.prefill_tokens_per_s, 1),
        generated_tokens_per_s=round(engine.recent.generated_tokens_per_s, 1),
        predicted_wait_s=admission.estimator.predicted_wait_s,
        limit=admission.limiter.limit,
        max_limit=admission.limiter.max_limit,
    )


def live_row(status: LiveRequestStatus) -> LiveRow:
    return LiveRow(
        record_id=str(status.record_id),
        request_id=status.request_id,
        user_id=status.user_id,
        username=status.username,
        key_name=status.key_name,
        model=status.model,
        endpoint=status.endpoint,
        phase=status.phase.value,
        num_input_tokens=status.num_input_tokens,
        num_output_tokens=status.num_output_tokens,
        max_tokens=status.max_tokens,
        total_s=round(status.total_s, 1),
    )
