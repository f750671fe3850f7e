"""Puts together what watches the requests of a server process: log lines, numbers, telemetry."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable

from accounts.contracts import Principal
from accounts.scopes import Scope
from inference.api.metrics import MetricsAccess
from inference.domain.clock import Clock
from inference.domain.telemetry_level import TelemetryLevel
from inference.routing import Watching
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.prometheus import RequestMetrics
from inference.telemetry.recent_events import RecentEvents
from inference.telemetry.recorder import LogRecorder, Recorders
from inference.telemetry.sink import SinkWorker
from inference.telemetry.stderr import StderrSink, is_switched_on
from inference.usage.event_store import DatabaseSink
from skippy_site.env import Environment


def make_watching(
    environment: Environment, *, clock: Clock, known_models: Callable[[], Iterable[str]]
) -> Watching:
    """Numbers, telemetry and who may read them, as the settings say."""
    return Watching(
        metrics=RequestMetrics(known_models),
        telemetry=make_telemetry(environment, clock=clock),
        access=MetricsAccess(
            networks=tuple(
                ipaddress.ip_network(text, strict=False) for text in environment.metrics_networks_text
            ),
            may_read=_may_read_metrics,
        ),
    )


def make_recorder(watching: Watching, recent: RecentEvents) -> Recorders:
    return Recorders((LogRecorder(), watching.metrics, watching.telemetry, recent))


def make_telemetry(environment: Environment, *, clock: Clock) -> TelemetryPipeline:
    """Each sink with its level. Debug goes to collectors and to standard error, never to the
    database."""
    level = TelemetryLevel.named(environment.telemetry)
    workers: list[SinkWorker] = []
    if is_switched_on(environment.telemetry_stderr):
        shown = TelemetryLevel.DEBUG if level is TelemetryLevel.OFF else level
        workers.append(SinkWorker(StderrSink(), level=shown))
    if level is not TelemetryLevel.OFF:
        workers.append(SinkWorker(DatabaseSink(), level=TelemetryLevel.SUMMARY))
    if environment.otlp_endpoint and level is not TelemetryLevel.OFF:
        from inference.telemetry.otlp import OtlpSink

        workers.append(SinkWorker(OtlpSink(environment.otlp_endpoint), level=level))
    return TelemetryPipeline(workers, clock=clock)


def _may_read_metrics(principal: Principal) -> bool:
    return Scope.METRICS in principal.scopes
