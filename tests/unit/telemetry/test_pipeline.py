import io
import json
import threading

import pytest

from inference.domain.admission_events import Admitted, FrameKind, LaneFreed, ReceiverOutcome
from inference.domain.phases import ChatTemplateRendered, ResponseBuilt
from inference.domain.telemetry_level import TelemetryLevel
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.sink import MAX_BATCH, SinkWorker
from inference.telemetry.stderr import StderrSink, is_switched_on
from tests.clocks import FakeClock
from tests.unit.telemetry.summaries import summary

FREED = LaneFreed("r-3", ReceiverOutcome.STALLED, FrameKind.TERMINAL, 10.0)
RENDERED = ChatTemplateRendered("r-1", 0.25, 3, 200)
ADMITTED = Admitted("r-1", 3, 16, True, 1.5, 2.0, 528, 1056, 4096)


class Kept:
    """A sink that keeps what it is given, once it is let."""

    name = "kept"

    def __init__(
        self, *, is_blocked: bool = False, failure: Exception | None = None, gather_s: float = 0.0
    ) -> None:
        self.gather_s = gather_s
        self.events = []
        self.batches = []
        self.is_closed = False
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.failure = failure
        if not is_blocked:
            self.gate.set()

    def deliver(self, batch) -> None:
        self.entered.set()
        self.gate.wait(5)
        if self.failure is not None:
            raise self.failure
        self.batches.append(len(batch))
        self.events += batch

    def close(self) -> None:
        self.is_closed = True


def run(sink: Kept, level: TelemetryLevel, *happened) -> TelemetryPipeline:
    pipeline = TelemetryPipeline([SinkWorker(sink, level=level)], clock=FakeClock(), run_id="run")
    pipeline.start()
    for one in happened:
        pipeline.record_event(one)
    pipeline.record(summary())
    pipeline.stop()
    pipeline.check_integrity()
    return pipeline


@pytest.mark.parametrize(
    ("level", "names"),
    [
        (TelemetryLevel.OFF, []),
        (TelemetryLevel.SUMMARY, ["stage.openai_stream_lane_freed", "stage.openai_request_summary"]),
        (
            TelemetryLevel.DEBUG,
            [
                "stage.openai_chat_template",
                "stage.openai_generation_admit",
                "stage.openai_generation_token_admit",
                "stage.openai_response_build",
                "stage.openai_stream_lane_freed",
                "stage.openai_request_summary",
            ],
        ),
    ],
)
def test_each_level_tells_its_own_and_what_is_below(level, names):
    sink = Kept()

    run(sink, level, RENDERED, ADMITTED, ResponseBuilt("r-1", 0.001, 90, is_stream=True), FREED)

    assert [event.name for event in sink.events] == names


def test_an_event_ends_now_and_began_its_length_before():
    sink = Kept()

    run(sink, TelemetryLevel.DEBUG, RENDERED)

    rendered, whole = sink.events
    assert rendered.elapsed_s == 0.25
    assert rendered.end_unix_ns == 1_700_001_000 * 10**9
    assert dict(rendered.attributes)["llama_stage.elapsed_ms"] == 250.0
    assert dict(rendered.attributes)["llama_stage.openai_phase"] == "chat_template"
    assert whole.request_id == "r-1"


def test_an_event_without_a_length_lasts_a_nanosecond():
    sink = Kept()

    run(sink, TelemetryLevel.SUMMARY, FREED)

    assert sink.events[0].end_unix_ns - sink.events[0].start_unix_ns == 1


def test_a_slow_sink_drops_what_does_not_fit_and_nobody_waits():
    sink = Kept(is_blocked=True)
    worker = SinkWorker(sink, level=TelemetryLevel.SUMMARY, max_queued=4)
    pipeline = TelemetryPipeline([worker], clock=FakeClock())
    pipeline.start()
    pipeline.record_event(FREED)
    assert sink.entered.wait(5)

    for _ in range(10):
        pipeline.record_event(FREED)

    held = worker.statistics()
    worker.check_integrity()
    assert (held.num_in_hand, held.num_queued, held.total_dropped) == (1, 4, 6)
    sink.gate.set()
    pipeline.stop()
    assert len(sink.events) == 5
    assert sink.is_closed
    assert "6 dropped" in repr(worker)


def test_drops_are_told_by_the_events_that_come_after():
    sink = Kept(is_blocked=True)
    worker = SinkWorker(sink, level=TelemetryLevel.SUMMARY, max_queued=1)
    pipeline = TelemetryPipeline([worker], clock=FakeClock())
    pipeline.record_event(FREED)
    pipeline.record_event(FREED)
    pipeline.start()
    sink.gate.set()
    while worker.statistics().total_delivered < 1:
        pass
    pipeline.record_event(FREED)
    pipeline.stop()

    assert [dict(event.attributes)["skippy.otel_dropped_events"] for event in sink.events] == [0, 1]


def test_a_sink_that_fails_loses_its_batch_and_goes_on(caplog):
    sink = Kept(failure=RuntimeError("sk-skippy-secret"))

    pipeline = run(sink, TelemetryLevel.SUMMARY, FREED)

    assert pipeline.statistics().total_failed == 2
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_sink_that_hangs_does_not_hold_up_the_stop():
    sink = Kept(is_blocked=True)
    worker = SinkWorker(sink, level=TelemetryLevel.SUMMARY)
    pipeline = TelemetryPipeline([worker], clock=FakeClock())
    pipeline.start()
    pipeline.record_event(FREED)
    assert sink.entered.wait(5)
    pipeline.record_event(FREED)

    worker.stop(limit_s=0.05)

    assert worker.statistics().total_dropped == 1
    worker.check_integrity()
    sink.gate.set()


def test_a_large_backlog_goes_out_in_batches():
    sink = Kept(is_blocked=True)
    pipeline = TelemetryPipeline([SinkWorker(sink, level=TelemetryLevel.SUMMARY)], clock=FakeClock())
    for _ in range(300):
        pipeline.record_event(FREED)
    pipeline.start()
    sink.gate.set()
    pipeline.stop()

    assert sink.batches == [128, 128, 44]


def test_many_threads_lose_no_count():
    sink = Kept()
    worker = SinkWorker(sink, level=TelemetryLevel.SUMMARY, max_queued=64)
    pipeline = TelemetryPipeline([worker], clock=FakeClock())
    pipeline.start()
    threads = [
        threading.Thread(target=lambda: [pipeline.record_event(FREED) for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipeline.stop()

    pipeline.check_integrity()
    counted = worker.statistics()
    assert counted.total_offered == 2000
    assert counted.total_delivered + counted.total_dropped == 2000


def test_lines_on_standard_error_are_json():
    stream = io.StringIO()
    worker = SinkWorker(StderrSink(stream), level=TelemetryLevel.SUMMARY)
    pipeline = TelemetryPipeline([worker], clock=FakeClock(), run_id="run")
    pipeline.start()
    pipeline.record_event(FREED)
    pipeline.stop()

    line = json.loads(stream.getvalue())
    assert sorted(line) == ["attributes", "end_time_unix_nanos", "event", "start_time_unix_nanos"]
    assert line["attributes"]["skippy.run_id"] == "run"
    assert line["attributes"]["skippy.stream.outcome"] == "receiver_stalled"


@pytest.mark.parametrize("value", ["", "  ", "0", "false", "No", "OFF"])
def test_words_that_switch_standard_error_off(value):
    assert not is_switched_on(value)


@pytest.mark.parametrize("value", ["1", "true", "yes", "stderr", "2"])
def test_words_that_switch_standard_error_on(value):
    assert is_switched_on(value)


def test_where_a_delivery_has_its_price_events_wait_for_others_but_a_stop_does_not():
    sink = Kept(gather_s=3600.0)
    run(sink, TelemetryLevel.SUMMARY, FREED, FREED, FREED)
    assert sink.batches == [4]


def test_a_full_batch_waits_for_nobody():
    sink = Kept(gather_s=3600.0)
    worker = SinkWorker(sink, level=TelemetryLevel.SUMMARY)
    pipeline = TelemetryPipeline([worker], clock=FakeClock(), run_id="run")
    pipeline.start()
    for _ in range(MAX_BATCH):
        pipeline.record_event(FREED)
    assert sink.entered.wait(5)
    pipeline.stop()
    assert sink.batches == [MAX_BATCH]
