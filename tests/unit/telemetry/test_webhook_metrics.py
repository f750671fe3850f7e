from prometheus_client.parser import text_string_to_metric_families

from hooks.webhooks.breaker import BreakerState, BreakerStatistics
from hooks.webhooks.failures import FailureReason
from hooks.webhooks.statistics import WebhookStatistics
from inference.domain.ledger import LedgerStatistics
from inference.telemetry.prometheus import RequestMetrics

REVIEW = WebhookStatistics(
    webhook_id=1,
    name='re"view\n',
    max_in_flight=16,
    num_in_flight=2,
    num_waiting=3,
    num_answers=40,
    num_given_up=5,
    num_retries=6,
    failures={FailureReason.TIMED_OUT: 7},
    elapsed_s=8.5,
    breaker=BreakerStatistics(BreakerState.HALF_OPEN, 5, 9),
)


def samples(metrics):
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels, reverse=True))): sample.value
        for family in text_string_to_metric_families(metrics.exposition([], (), LedgerStatistics()).decode())
        for sample in family.samples
    }


def test_each_webhook_has_its_numbers_as_at_the_scrape():
    metrics, now = RequestMetrics(list), []
    metrics.watch_webhooks(lambda: now)
    assert not [key for key in samples(metrics) if "webhook" in key[0]]
    now.append(REVIEW)

    found = {key: value for key, value in samples(metrics).items() if "webhook" in key[0]}
    name = REVIEW.name
    assert found == {
        ("skippy_webhook_calls_total", name, "answered"): 40,
        ("skippy_webhook_calls_total", name, "given_up"): 5,
        ("skippy_webhook_calls_total", name, "timed_out"): 7,
        ("skippy_webhook_seconds_total", name): 8.5,
        ("skippy_webhook_retries_total", name): 6,
        ("skippy_webhook_circuit_openings_total", name): 9,
        ("skippy_webhook_circuit_open", name): 1,
        ("skippy_webhook_calls_in_flight", name): 2,
        ("skippy_webhook_calls_waiting", name): 3,
    }
