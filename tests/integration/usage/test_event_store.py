from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.db import connection

from inference.domain.admission_events import FrameKind, LaneFreed, ReceiverOutcome
from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.outcomes import Outcome
from inference.domain.telemetry_level import TelemetryLevel
from inference.models import EventBucket, StoredEvent
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.sink import SinkWorker
from inference.usage.event_store import DatabaseSink, events_aggregate
from tests.clocks import FakeClock
from tests.unit.telemetry.summaries import summary

pytestmark = pytest.mark.django_db(transaction=True)
FREED = LaneFreed("r-3", ReceiverOutcome.STALLED, FrameKind.TERMINAL, 10.0)


def tell(*happened) -> None:
    pipeline = TelemetryPipeline(
        [SinkWorker(DatabaseSink(), level=TelemetryLevel.SUMMARY)], clock=FakeClock(), run_id="run"
    )
    pipeline.start()
    for one in happened:
        (pipeline.record if hasattr(one, "total_s") else pipeline.record_event)(one)
    pipeline.stop()
    assert pipeline.statistics().total_failed == 0


def test_events_are_kept_with_their_attributes():
    tell(FREED, summary(request_id="r-4"))

    freed, ended = StoredEvent.objects.order_by("id")
    assert (freed.name, freed.request_id) == ("stage.openai_stream_lane_freed", "r-3")
    assert freed.attributes["skippy.stream.outcome"] == "receiver_stalled"
    assert ended.elapsed_s == pytest.approx(1.5)
    assert ended.at == datetime.fromtimestamp(1_700_001_000, UTC)


def test_texts_that_callers_chose_are_cut_and_never_refused():
    tell(summary(model="m\0" + "x" * 5000))

    assert len(StoredEvent.objects.get().attributes["gen_ai.request.model"]) == 200


def test_events_add_up_by_hour_name_and_detail():
    tell(FREED, FREED, summary(), summary(outcome=Outcome.BACKEND_ERROR, total_s=9.0))
    assert events_aggregate() == 4
    tell(summary(total_s=3.0))
    assert events_aggregate() == 1
    assert events_aggregate() == 0

    found = {(one.name, one.detail): one for one in EventBucket.objects.all()}
    assert found["stage.openai_stream_lane_freed", "receiver_stalled"].num_events == 2
    assert found["stage.openai_request_summary", "backend_error"].num_events == 1
    completed = found["stage.openai_request_summary", "completed"]
    assert tuple(completed.elapsed_counts) == LatencyHistogram.of([1.5, 3.0]).counts


def test_parallel_deliveries_count_each_event_once():
    tell(*[FREED] * 200)

    def deliver(_: int) -> int:
        try:
            return events_aggregate(max_events=10)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        taken = sum(threads.map(deliver, range(8)))

    assert taken + events_aggregate() == 200
    assert EventBucket.objects.get().num_events == 200
