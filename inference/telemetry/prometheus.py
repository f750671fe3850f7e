"""Numbers for Prometheus, under vLLM's names where they mean the same.

Boards and autoscalers that people have for vLLM then work as they are; what vLLM does not know is
named skippy_…. Labels take their values from sets that are bounded: a model that a caller made up is
"unknown". Bucket bounds are vLLM's (vllm/v1/metrics/loggers.py), so that quantiles are comparable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hooks.webhooks.statistics import WebhookStatistics
from inference.domain.admission_events import AdmissionEvent, LaneFreed, Rejected
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.embeddings import EmbeddingStatistics
from inference.domain.ledger import LedgerStatistics
from inference.domain.outcomes import Outcome, RequestSummary
from inference.domain.phases import PhaseEvent
from inference.telemetry.policy_metrics import PolicyMetrics
from inference.telemetry.sink import SinkStatistics
from inference.telemetry.webhook_metrics import WebhookCollector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_TTFT_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_TPOT_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
_TOKENS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
UNKNOWN_MODEL = "unknown"


@dataclass(frozen=True, slots=True)
class ModelGauges:
    """What one model holds at the moment of a scrape, and counts that its engine keeps itself.

    `total_…` only grow. `concurrency_limit` requests may run at once, of at most `num_lanes`.
    """

    model: str
    is_ready: bool
    num_running: int = 0
    num_waiting: int = 0
    max_waiting: int = 0
    num_lanes: int = 0
    concurrency_limit: int = 0
    num_held: int = 0
    num_cells: int = 0
    num_cells_used: int = 0
    num_cells_cached: int = 0
    num_reserved_tokens: int = 0
    total_preemptions: int = 0
    total_prefill_tokens: int = 0
    total_hit_tokens: int = 0
    total_steps: int = 0
    total_drafted_tokens: int = 0
    total_accepted_tokens: int = 0
    total_injected_tokens: int = 0
    total_discarded_tokens: int = 0
    total_failed_steps: int = 0
    total_integrity_faults: int = 0
    cold: ColdPrefixStatistics = field(default_factory=ColdPrefixStatistics)
    embeddings: EmbeddingStatistics = field(default_factory=EmbeddingStatistics)


class RequestMetrics:
    """A Recorder that counts, and writes all numbers down when asked. Any thread.

    `known_models` are the ids that may stand in a label.
    """

    def __init__(self, known_models: Callable[[], Iterable[str]]) -> None:
        self._known_models = known_models
        self._registry = CollectorRegistry(auto_describe=False)
        self._scraping = threading.Lock()
        model = ("model_name",)
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens of ended requests.", model)
        self._output_tokens = self._counter("vllm:generation_tokens", "Tokens generated.", model)
        self._success = self._counter(
            "vllm:request_success", "Completed requests.", (*model, "finished_reason")
        )
        self._requests = self._counter(
            "skippy_requests", "Requests that passed authentication.", ("endpoint", "outcome", "code")
        )
        self._rejections = self._counter(
            "skippy_admission_rejections", "Requests that admission refused.", ("reason",)
        )
        self._freed = self._counter("skippy_lanes_freed", "Lanes taken from lost readers.", ("reason",))
        self._refused_keys = self._counter(
            "skippy_refused_keys", "Requests that failed authentication.", ("code",)
        )
        self._first_token = self._histogram(
            "vllm:time_to_first_token_seconds", "From arrival to the first token.", _TTFT_S
        )
        self._per_token = self._histogram(
            "vllm:request_time_per_output_token_seconds", "Mean time for a token after the first.", _TPOT_S
        )
        self._total = self._histogram(
            "vllm:e2e_request_latency_seconds", "From arrival to the end.", _REQUEST_S
        )
        self._queue = self._histogram(
            "vllm:request_queue_time_seconds", "From the submission to a lane.", _REQUEST_S
        )
        self._prefill = self._histogram(
            "vllm:request_prefill_time_seconds", "From a lane to the first token.", _REQUEST_S
        )
        self._decode = self._histogram(
            "vllm:request_decode_time_seconds", "From the first token to the end.", _REQUEST_S
        )
        self._prompt_sizes = self._histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", _TOKENS)
        self._output_sizes = self._histogram(
            "vllm:request_generation_tokens", "Tokens of an answer.", _TOKENS
        )
        self.policies = PolicyMetrics(self._registry)
        self._state = _StateCollector()
        self._registry.register(self._state)

    def record(self, summary: RequestSummary) -> None:
        model = summary.model if summary.model in self._known_models() else UNKNOWN_MODEL
        self._requests.labels(summary.endpoint, summary.outcome.value, summary.error_code or "").inc()
        if summary.outcome is Outcome.COMPLETED and summary.finish_reason is not None:
            self._success.labels(model, summary.finish_reason.value).inc()
        if summary.usage is not None:
            self._prompt_tokens.labels(model).inc(summary.usage.prompt_tokens)
            self._output_tokens.labels(model).inc(summary.usage.completion_tokens)
        if summary.started_s is not None:
            self._record_times(summary, model, summary.started_s)

    def _record_times(self, summary: RequestSummary, model: str, started_s: float) -> None:
        self._queue.labels(model).observe(started_s if summary.queue_s is None else summary.queue_s)
        self._total.labels(model).observe(summary.total_s)
        if summary.usage is not None:
            self._prompt_sizes.labels(model).observe(summary.usage.prompt_tokens)
            self._output_sizes.labels(model).observe(summary.usage.completion_tokens)
        if summary.first_token_s is None:
            return
        decode_s = max(0.0, summary.total_s - summary.first_token_s)
        self._first_token.labels(model).observe(summary.first_token_s)
        self._prefill.labels(model).observe(max(0.0, summary.first_token_s - started_s))
        self._decode.labels(model).observe(decode_s)
        if summary.time_per_token_s is not None:
            self._per_token.labels(model).observe(summary.time_per_token_s)

    def record_event(self, event: AdmissionEvent | PhaseEvent) -> None:
        match event:
            case Rejected():
                self._rejections.labels(event.reason.value).inc()
            case LaneFreed():
                self._freed.labels(event.outcome.value).inc()
            case _:
                pass

    def note_refused_key(self, code: str) -> None:
        """A request showed no key, or one that opens nothing. `code` is one of the few of a 401."""
        self._refused_keys.labels(code).inc()

    def watch_webhooks(self, statistics: Callable[[], Iterable[WebhookStatistics]]) -> None:
        """Asked at each scrape."""
        self._registry.register(WebhookCollector(statistics))

    def exposition(
        self,
        gauges: Iterable[ModelGauges],
        sinks: Iterable[SinkStatistics],
        ledger: LedgerStatistics,
        *,
        is_under_maintenance: bool = False,
    ) -> bytes:
        """All numbers in Prometheus' text form."""
        with self._scraping:
            self._state.gauges, self._state.sinks, self._state.ledger = tuple(gauges), tuple(sinks), ledger
            self._state.is_under_maintenance = is_under_maintenance
            return generate_latest(self._registry)

    def _counter(self, name: str, meaning: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, meaning, labels, registry=self._registry)

    def _histogram(self, name: str, meaning: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, meaning, ("model_name",), buckets=buckets, registry=self._registry)


class _StateCollector(Collector):
    """Turns the gauges of one scrape into metrics."""

    def __init__(self) -> None:
        self.gauges: tuple[ModelGauges, ...] = ()
        self.sinks: tuple[SinkStatistics, ...] = ()
        self.ledger = LedgerStatistics()
        self.is_under_maintenance = False

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for now in self.gauges:
            for name, meaning, value in _gauge_values(now):
                gauge = families.setdefault(name, GaugeMetricFamily(name, meaning, labels=["model_name"]))
                gauge.add_metric([now.model], value)
            for name, meaning, value in _counter_values(now):
                counter = families.setdefault(name, CounterMetricFamily(name, meaning, labels=["model_name"]))
                counter.add_metric([now.model], value)
        yield from families.values()
        yield from _ledger_families(self.ledger)
        yield GaugeMetricFamily(
            "skippy_maintenance",
            "1 while newcomers are refused: under maintenance.",
            value=int(self.is_under_maintenance),
        )
        dropped = CounterMetricFamily(
            "skippy_telemetry_dropped", "Events that found the queue of a sink full.", labels=["sink"]
        )
        failed = CounterMetricFamily(
            "skippy_telemetry_failed", "Events that a sink could not deliver.", labels=["sink"]
        )
        for sink in self.sinks:
            dropped.add_metric([sink.name], sink.total_dropped)
            failed.add_metric([sink.name], sink.total_failed)
        yield from (dropped, failed)


def _ledger_families(now: LedgerStatistics) -> Iterator[Metric]:
    for name, meaning, value in (
        (
            "skippy_records_refused",
            "1 while newcomers are refused: records cannot be kept.",
            int(bool(now.fault)),
        ),
        ("skippy_records_waiting", "Records on their way to the database.", now.num_waiting),
        ("skippy_records_backlog", "Records in the journal until the database is back.", now.num_backlog),
        ("skippy_journal_bytes", "The journal of this process.", now.journal_bytes),
    ):
        yield GaugeMetricFamily(name, meaning, value=value)
    for name, meaning, value in (
        ("skippy_records_committed", "Records that the database took.", now.total_committed),
        ("skippy_records_quarantined", "Records that the database will never take.", now.total_quarantined),
        ("skippy_records_recovered", "Records of processes that died.", now.total_recovered),
        (
            "skippy_journal_damaged_lines",
            "Lines of journals that could not be read.",
            now.total_damaged_lines,
        ),
    ):
        yield CounterMetricFamily(name, meaning, value=value)


def _gauge_values(now: ModelGauges) -> tuple[tuple[str, str, float], ...]:
    used = now.num_cells_used / now.num_cells if now.num_cells else 0.0
    return (
        ("vllm:num_requests_running", "Requests that hold a lane.", now.num_running),
        ("vllm:num_requests_waiting", "Requests in the queue.", now.num_waiting),
        ("vllm:kv_cache_usage_perc", "Share of KV cells that running requests use (0 to 1).", used),
        ("skippy_ready", "1 while requests can be served.", int(now.is_ready)),
        ("skippy_queue_capacity", "Requests that may wait.", now.max_waiting),
        ("skippy_lanes", "Requests that the engine can run at once.", now.num_lanes),
        ("skippy_concurrency_limit", "Requests that may run at once now.", now.concurrency_limit),
        ("skippy_requests_held", "Requests whose reader is slow.", now.num_held),
        ("skippy_kv_cells", "KV cells.", now.num_cells),
        ("skippy_kv_cells_used", "KV cells of running requests.", now.num_cells_used),
        ("skippy_kv_cells_cached", "KV cells kept for later prompts only.", now.num_cells_cached),
        ("skippy_reserved_tokens", "Tokens that admitted requests may still need.", now.num_reserved_tokens),
        ("skippy_host_cache_bytes", "KV state in host memory.", now.cold.num_bytes),
        ("skippy_host_cache_max_bytes", "KV state that may be there.", now.cold.max_bytes),
        ("skippy_host_cache_pieces", "Parts of KV state in host memory.", now.cold.num_pieces),
        ("skippy_disk_cache_bytes", "KV state on disk.", now.cold.disk.num_bytes),
        ("skippy_disk_cache_files", "Its files.", now.cold.disk.num_files),
        ("skippy_embedding_requests", "Requests for embeddings that are open.", now.embeddings.num_jobs),
        ("skippy_embedding_tokens_waiting", "Tokens of theirs to compute.", now.embeddings.num_tokens),
    )


def _counter_values(now: ModelGauges) -> tuple[tuple[str, str, float], ...]:
    queried, cold = now.total_prefill_tokens + now.total_hit_tokens, now.cold
    disk, embeddings = cold.disk, now.embeddings
    return (
        ("vllm:num_preemptions", "Requests that gave up their cells.", now.total_preemptions),
        ("vllm:prefix_cache_queries", "Prompt tokens looked for in the prefix cache.", queried),
        ("vllm:prefix_cache_hits", "Prompt tokens found there.", now.total_hit_tokens),
        ("vllm:spec_decode_num_draft_tokens", "Tokens guessed ahead.", now.total_drafted_tokens),
        ("vllm:spec_decode_num_accepted_tokens", "Those guessed rightly.", now.total_accepted_tokens),
        ("skippy_injected_tokens", "Tokens that hooks put into answers.", now.total_injected_tokens),
        ("skippy_discarded_tokens", "Tokens thrown away for that.", now.total_discarded_tokens),
        ("skippy_engine_steps", "Steps of the engine.", now.total_steps),
        ("skippy_engine_failed_steps", "Steps that failed.", now.total_failed_steps),
        ("skippy_integrity_faults", "How often the books did not agree.", now.total_integrity_faults),
        ("skippy_host_cache_restores", "Prompts that got KV state back.", cold.total_restores),
        ("skippy_host_cache_restored_tokens", "Tokens of theirs.", cold.total_restored_tokens),
        ("skippy_host_cache_restore_seconds", "Time of copying back.", cold.total_restore_s),
        ("skippy_host_cache_saved_tokens", "Tokens whose KV state was copied.", cold.total_saved_tokens),
        ("skippy_host_cache_save_seconds", "Time of copying it.", cold.total_save_s),
        ("skippy_host_cache_failures", "KV state that was spoilt or refused.", cold.total_failures),
        ("skippy_host_cache_evictions", "Parts of KV state that gave way.", cold.total_evictions),
        ("skippy_disk_cache_writes", "Parts of KV state that were written.", disk.total_writes),
        ("skippy_disk_cache_reads", "Parts of KV state that were read.", disk.total_reads),
        ("skippy_disk_cache_damaged", "Files that were not what was written.", disk.total_damaged),
        ("skippy_disk_cache_failures", "Files that could not be used.", disk.total_failures),
        ("skippy_disk_cache_dropped", "Parts that the disk was too slow for.", disk.total_dropped),
        ("skippy_embedding_texts", "Texts embedded.", embeddings.total_texts),
        ("skippy_embedding_tokens", "Tokens of theirs.", embeddings.total_tokens),
        ("skippy_embedding_batches", "Batches that they took.", embeddings.total_batches),
    )
