"""From what happens in the service to the sinks: names it, and lets each sink have what it asked for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from inference.domain.admission_events import AdmissionEvent
from inference.domain.clock import Clock
from inference.domain.outcomes import RequestSummary
from inference.domain.phases import PhaseEvent
from inference.domain.telemetry_event import NS_PER_S, Attribute, TelemetryEvent
from inference.domain.telemetry_level import TelemetryLevel
from inference.telemetry.event_names import PublishedEvent, published_events
from inference.telemetry.sink import SinkStatistics, SinkWorker

STOP_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class TelemetryStatistics:
    sinks: tuple[SinkStatistics, ...]

    @property
    def total_dropped(self) -> int:
        return sum(sink.total_dropped for sink in self.sinks)

    @property
    def total_failed(self) -> int:
        return sum(sink.total_failed for sink in self.sinks)


class TelemetryPipeline:
    """A Recorder that can lose things and never waits. Without sinks it costs one comparison.

    Each process and start has a `run_id`, so that counters which begin again can be told apart.
    """

    def __init__(self, workers: Sequence[SinkWorker], *, clock: Clock, run_id: str = "") -> None:
        self.run_id = run_id or str(uuid.uuid4())
        self._workers = tuple(worker for worker in workers if worker.level > TelemetryLevel.OFF)
        self._level = max((worker.level for worker in self._workers), default=TelemetryLevel.OFF)
        self._clock = clock

    def __repr__(self) -> str:
        return f"<TelemetryPipeline {self._level.name.lower()} {list(self._workers)}>"

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop(limit_s=STOP_LIMIT_S)

    def record(self, summary: RequestSummary) -> None:
        self._publish(summary)

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        self._publish(event)

    def statistics(self) -> TelemetryStatistics:
        return TelemetryStatistics(tuple(worker.statistics() for worker in self._workers))

    def check_integrity(self) -> None:
        for worker in self._workers:
            worker.check_integrity()

    def _publish(self, happened: RequestSummary | AdmissionEvent | PhaseEvent) -> None:
        if self._level is TelemetryLevel.OFF:
            return
        end_ns = int(self._clock.unix_time() * NS_PER_S)
        for published in published_events(happened, self._level):
            event = self._event(published, end_ns)
            for worker in self._workers:
                if event.level <= worker.level:
                    worker.offer(event)

    def _event(self, published: PublishedEvent, end_ns: int) -> TelemetryEvent:
        length_ns = max(1, int((published.elapsed_s or 0.0) * NS_PER_S))
        statistics = self.statistics()
        always: dict[str, Attribute] = {
            "skippy.run_id": self.run_id,
            "skippy.stage_id": "local",
            "skippy.otel_dropped_events": statistics.total_dropped,
            "skippy.otel_export_errors": statistics.total_failed,
        }
        return TelemetryEvent(
            name=published.name,
            level=published.level,
            request_id=published.request_id,
            start_unix_ns=end_ns - length_ns,
            end_unix_ns=end_ns,
            attributes=(*published.attributes.items(), *always.items()),
        )
