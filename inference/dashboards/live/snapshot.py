"""What the live page shows, as it is sent: one JSON object, made once a second for all who look on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from inference.domain.live_requests import LiveRequestStatus
from inference.domain.model_settings import ModelSettings, ModelStatus
from inference.hosting.loaded_model import ModelStatistics
from inference.ledger.live_desk import LiveRequests
from inference.telemetry.recent_events import RecentEvent

MAX_REQUESTS = 200
MAX_MODELS = 100
MAX_TEXT = 200
"""Of a cause or an event: a few of them may have come from outside."""


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
    """`models` (of `num_models`), `decisions` and `events` are of the process that sends it, `requests` of
    all `num_servers`: `num_requests` in all, of which the oldest are here. `num_silent` processes did not
    answer; where the database did not, through which they are asked, nothing `is_known` of requests.
    `is_complete` is False in both cases. `maintenance` is what newcomers are told where the service is closed
    to them, else empty."""

    at: float
    models: list[LiveModel]
    num_models: int
    requests: list[LiveRow]
    num_requests: int
    num_servers: int
    num_silent: int
    is_complete: bool
    maintenance: str
    is_known: bool
    decisions: list[RecentEvent]
    events: list[RecentEvent]


@dataclass(frozen=True, slots=True)
class RequestsOfAll:
    """What was found out about the requests of all processes: nothing, at first."""

    told: Sequence[LiveRequestStatus] = ()
    num_requests: int = 0
    num_servers: int = 0
    num_silent: int = 0
    is_known: bool = False

    @classmethod
    def of(cls, found: LiveRequests) -> RequestsOfAll:
        num_requests = len(found.requests) + found.num_untold
        return cls(found.requests, num_requests, found.num_servers, found.num_silent, is_known=True)


def live_models(
    rows: Sequence[ModelSettings],
    statuses: Iterable[ModelStatus],
    held: Mapping[str, ModelStatistics],
) -> list[LiveModel]:
    """The first MAX_MODELS of them, loaded ones before others."""
    by_row = {status.row_id: status for status in statuses}
    ordered = sorted(rows, key=lambda row: row.id not in held)
    return [live_model(row.id, by_row.get(row.row_id), held.get(row.id)) for row in ordered[:MAX_MODELS]]


def told_events(events: Iterable[RecentEvent]) -> list[RecentEvent]:
    """None of them longer than a line has room for."""
    return [
        event
        if len(event.text) <= MAX_TEXT
        else RecentEvent(event.at, event.kind, event.text[:MAX_TEXT] + "…", event.request_id)
        for event in events
    ]


def live_model(id: str, status: ModelStatus | None, held: ModelStatistics | None) -> LiveModel:
    state = "unloaded" if status is None else status.state.value
    cause = "" if status is None else status.cause[:MAX_TEXT]
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
