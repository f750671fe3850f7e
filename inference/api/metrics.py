"""GET /metrics: the service's numbers in Prometheus' form.

They tell strangers more than they need, so they are for scrapers in the configured networks (this
machine alone by default) and for keys that may read metrics.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accounts.contracts import Principal
from inference.api.consumer import ApiConsumer
from inference.api.http import HttpRequest
from inference.api.nearness import caller_address
from inference.domain.errors import PermissionDenied
from inference.hosting.loaded_model import ModelStatistics
from inference.runtime import Runtime, RuntimeState
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.prometheus import CONTENT_TYPE, ModelGauges, RequestMetrics

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """Who may read. `may_read` judges a key's holder."""

    networks: tuple[Network, ...]
    may_read: Callable[[Principal], bool]

    def is_near(self, scope: Any) -> bool:
        """Whether the caller is in one of the networks, and is who it seems."""
        address = caller_address(scope)
        return address is not None and any(address in network for network in self.networks)


class MetricsConsumer(ApiConsumer):
    """Answers from memory: no database."""

    needs_key = False

    def __init__(
        self,
        *,
        runtime: Runtime,
        metrics: RequestMetrics,
        telemetry: TelemetryPipeline,
        access: MetricsAccess,
        **rest: Any,
    ) -> None:
        super().__init__(**rest)
        self._runtime = runtime
        self._metrics = metrics
        self._telemetry = telemetry
        self._access = access

    async def answer(self, request: HttpRequest, principal: Principal | None) -> None:
        if not self._access.is_near(self.scope):
            caller = await self._authenticator.authenticate(self.scope["headers"])
            if not self._access.may_read(caller):
                raise PermissionDenied("This API key may not read metrics.")
        body = self._metrics.exposition(
            model_gauges(self._runtime),
            self._telemetry.statistics().sinks,
            self._runtime.statistics().ledger,
            is_under_maintenance=self._runtime.maintenance.now.is_on,
        )
        headers = (
            (b"content-type", CONTENT_TYPE),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        )
        await self.respond.whole(200, headers, body)


def model_gauges(runtime: Runtime) -> list[ModelGauges]:
    """What each model holds now; all but nothing of those that are not loaded."""
    held = runtime.fleet.statistics()
    serves = runtime.state is RuntimeState.READY
    gauges = [_gauges(id, held.get(id), is_ready=serves) for id in runtime.fleet.known_ids()]
    return gauges or [ModelGauges("", is_ready=False)]


def _gauges(id: str, held: ModelStatistics | None, *, is_ready: bool) -> ModelGauges:
    if held is None:
        return ModelGauges(id, is_ready=False)
    engine, admission = held.engine, held.admission
    return ModelGauges(
        model=id,
        is_ready=is_ready and engine.is_alive,
        num_running=engine.lanes.num_used,
        num_waiting=admission.queue.num_waiting,
        max_waiting=admission.queue.max_waiting,
        num_lanes=engine.lanes.num_lanes,
        concurrency_limit=admission.limiter.limit,
        num_held=engine.num_held,
        num_cells=engine.num_cells,
        num_cells_used=engine.num_cells_used,
        num_cells_cached=engine.num_cells_cached,
        num_reserved_tokens=admission.budget.num_reserved_tokens,
        total_preemptions=engine.total_preemptions,
        total_prefill_tokens=engine.total_prefill_tokens,
        total_hit_tokens=engine.cache.total_hit_tokens,
        total_steps=engine.total_steps,
        total_drafted_tokens=engine.total_drafted_tokens,
        total_accepted_tokens=engine.total_accepted_tokens,
        total_injected_tokens=engine.total_injected_tokens,
        total_discarded_tokens=engine.total_discarded_tokens,
        total_failed_steps=engine.total_failed_steps,
        total_integrity_faults=engine.total_integrity_faults,
        cold=engine.cold,
        embeddings=held.embeddings,
    )
