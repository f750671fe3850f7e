from prometheus_client.parser import text_string_to_metric_families

from inference.domain.admission_events import Rejected
from inference.domain.cold_prefixes import ColdPrefixStatistics
from inference.domain.embeddings import EmbeddingStatistics
from inference.domain.ledger import LedgerStatistics
from inference.domain.outcomes import Outcome
from inference.domain.rejection_reason import RejectionReason
from inference.telemetry.prometheus import ModelGauges, RequestMetrics
from tests.unit.telemetry.summaries import summary


def samples(
    metrics: RequestMetrics, gauges: ModelGauges | None = None, ledger: LedgerStatistics | None = None
) -> dict[tuple[str, ...], float]:
    """By name and label values."""
    now = ledger or LedgerStatistics()
    text = metrics.exposition([gauges or ModelGauges("tiny", True)], (), now).decode()
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_an_answer_counts_under_the_names_of_vllm():
    metrics = RequestMetrics(lambda: ["tiny"])

    metrics.record(summary())

    found = samples(metrics)
    assert found["vllm:prompt_tokens_total", "tiny"] == 10
    assert found["vllm:generation_tokens_total", "tiny"] == 5
    assert found["vllm:request_success_total", "stop", "tiny"] == 1
    assert found["vllm:time_to_first_token_seconds_bucket", "0.75", "tiny"] == 1
    assert found["vllm:time_to_first_token_seconds_bucket", "0.5", "tiny"] == 0
    assert found["vllm:e2e_request_latency_seconds_sum", "tiny"] == 1.5
    assert found["vllm:request_time_per_output_token_seconds_count", "tiny"] == 1
    assert found["skippy_requests_total", "", "chat.completions", "completed"] == 1


def test_the_state_of_the_service_is_as_at_the_scrape():
    metrics = RequestMetrics(list)

    before = samples(metrics, ModelGauges("tiny", True, num_running=3, num_cells=8, num_cells_used=2))
    after = samples(metrics, ModelGauges("tiny", False, total_hit_tokens=5, total_prefill_tokens=10))

    assert before["vllm:num_requests_running", "tiny"] == 3
    assert before["vllm:kv_cache_usage_perc", "tiny"] == 0.25
    assert after["vllm:num_requests_running", "tiny"] == 0
    assert after["vllm:prefix_cache_queries_total", "tiny"] == 15
    assert after["vllm:prefix_cache_hits_total", "tiny"] == 5
    assert after["skippy_ready", "tiny"] == 0


def test_guessed_tokens_are_counted_under_the_names_of_vllm():
    found = samples(
        RequestMetrics(list), ModelGauges("tiny", True, total_drafted_tokens=9, total_accepted_tokens=7)
    )

    assert found["vllm:spec_decode_num_draft_tokens_total", "tiny"] == 9
    assert found["vllm:spec_decode_num_accepted_tokens_total", "tiny"] == 7


def test_tokens_of_hooks_are_counted():
    now = ModelGauges("tiny", True, total_injected_tokens=20, total_discarded_tokens=2)

    found = samples(RequestMetrics(list), now)

    assert found["skippy_injected_tokens_total", "tiny"] == 20
    assert found["skippy_discarded_tokens_total", "tiny"] == 2


def test_what_is_kept_in_host_memory_is_told():
    metrics = RequestMetrics(list)
    cold = ColdPrefixStatistics(num_bytes=7, max_bytes=9, total_restores=2, total_restore_s=0.5)

    found = samples(metrics, ModelGauges("tiny", True, cold=cold))

    assert found["skippy_host_cache_bytes", "tiny"] == 7
    assert found["skippy_host_cache_max_bytes", "tiny"] == 9
    assert found["skippy_host_cache_restores_total", "tiny"] == 2
    assert found["skippy_host_cache_restore_seconds_total", "tiny"] == 0.5
    assert found["skippy_host_cache_failures_total", "tiny"] == 0


def test_embeddings_are_counted_beside_answers():
    embeddings = EmbeddingStatistics(
        num_jobs=2, num_tokens=30, total_texts=5, total_tokens=90, total_batches=3
    )

    found = samples(RequestMetrics(list), ModelGauges("tiny", True, embeddings=embeddings))

    assert found["skippy_embedding_requests", "tiny"] == 2
    assert found["skippy_embedding_tokens_waiting", "tiny"] == 30
    assert found["skippy_embedding_texts_total", "tiny"] == 5
    assert found["skippy_embedding_tokens_total", "tiny"] == 90
    assert found["skippy_embedding_batches_total", "tiny"] == 3


def test_models_that_callers_make_up_make_no_series():
    metrics = RequestMetrics(lambda: ["tiny"])

    for number in range(100):
        metrics.record(summary(model=f"made-up-{number}"))

    names = [key for key in samples(metrics) if key[0] == "vllm:prompt_tokens_total"]
    assert names == [("vllm:prompt_tokens_total", "unknown")]


def test_a_refusal_has_no_latency():
    metrics = RequestMetrics(lambda: ["tiny"])

    metrics.record(
        summary(
            outcome=Outcome.REJECTED, error_code="server_overloaded", started_s=None, first_token_s=None,
            usage=None, finish_reason=None,
        )
    )  # fmt: skip
    metrics.record_event(Rejected("r-2", RejectionReason.PREDICTED_WAIT, 16, 16, 75.25))
    metrics.note_refused_key("api_key_expired")

    found = samples(metrics)
    assert ("vllm:e2e_request_latency_seconds_count", "tiny") not in found
    assert found["skippy_requests_total", "server_overloaded", "chat.completions", "rejected"] == 1
    assert found["skippy_admission_rejections_total", RejectionReason.PREDICTED_WAIT.value] == 1
    assert found["skippy_refused_keys_total", "api_key_expired"] == 1


def test_what_is_not_in_the_database_yet_is_told():
    ledger = LedgerStatistics(num_waiting=2, num_backlog=30, journal_bytes=4096, total_quarantined=1)
    found = samples(RequestMetrics(list), ledger=ledger)

    assert found["skippy_records_waiting",] == 2
    assert found["skippy_records_backlog",] == 30
    assert found["skippy_journal_bytes",] == 4096
    assert found["skippy_records_quarantined_total",] == 1
    assert found["skippy_records_refused",] == 0
    full = samples(RequestMetrics(list), ledger=LedgerStatistics(fault="the disk is nearly full"))
    assert full["skippy_records_refused",] == 1
