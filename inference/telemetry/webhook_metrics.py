"""Numbers of webhooks for Prometheus. A webhook's counts begin anew when it is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hooks.webhooks.breaker import BreakerState
from hooks.webhooks.statistics import WebhookStatistics

_WEBHOOK = ("webhook",)


class WebhookCollector(Collector):
    """Asks for the numbers at each scrape. Names of webhooks are labels: administrators give them."""

    def __init__(self, statistics: Callable[[], Iterable[WebhookStatistics]]) -> None:
        self._statistics = statistics

    def collect(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "skippy_webhook_calls", "Calls of webhooks that ended.", labels=("webhook", "outcome")
        )
        seconds = CounterMetricFamily("skippy_webhook_seconds", "Time that they took.", labels=_WEBHOOK)
        retries = CounterMetricFamily("skippy_webhook_retries", "Further tries of theirs.", labels=_WEBHOOK)
        openings = CounterMetricFamily(
            "skippy_webhook_circuit_openings",
            "How often it was given up for a while.",
            labels=_WEBHOOK,
        )
        is_open = GaugeMetricFamily(
            "skippy_webhook_circuit_open", "1 while it is not asked, or by one call alone.", labels=_WEBHOOK
        )
        in_flight = GaugeMetricFamily("skippy_webhook_calls_in_flight", "Calls now out.", labels=_WEBHOOK)
        waiting = GaugeMetricFamily(
            "skippy_webhook_calls_waiting", "Calls that wait for a place.", labels=_WEBHOOK
        )
        for now in self._statistics():
            name = [now.name]
            calls.add_metric([now.name, "answered"], now.num_answers)
            calls.add_metric([now.name, "given_up"], now.num_given_up)
            for reason, num_failures in sorted(now.failures.items()):
                calls.add_metric([now.name, reason.name.lower()], num_failures)
            seconds.add_metric(name, now.elapsed_s)
            retries.add_metric(name, now.num_retries)
            openings.add_metric(name, now.breaker.num_openings)
            is_open.add_metric(name, int(now.breaker.state is not BreakerState.CLOSED))
            in_flight.add_metric(name, now.num_in_flight)
            waiting.add_metric(name, now.num_waiting)
        yield from (calls, seconds, retries, openings, is_open, in_flight, waiting)
