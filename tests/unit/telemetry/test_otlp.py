import pytest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from inference.domain.outcomes import Outcome
from inference.domain.phases import ChatTemplateRendered
from inference.domain.telemetry_level import TelemetryLevel
from inference.telemetry.event_names import published_events
from inference.telemetry.otlp import ExportFailed, OtlpSink
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.sink import SinkWorker
from tests.clocks import FakeClock
from tests.unit.telemetry.summaries import summary


def spans(*happened):
    exporter = InMemorySpanExporter()
    worker = SinkWorker(OtlpSink("http://unused", exporter=exporter), level=TelemetryLevel.DEBUG)
    pipeline = TelemetryPipeline([worker], clock=FakeClock())
    pipeline.start()
    for one in happened:
        (pipeline.record if hasattr(one, "outcome") else pipeline.record_event)(one)
    pipeline.stop()
    return exporter.get_finished_spans()


def test_the_spans_of_a_request_are_one_trace_under_its_summary():
    phase, root = spans(ChatTemplateRendered("r-1", 0.25, 3, 200), summary())

    assert phase.context.trace_id == root.context.trace_id
    assert phase.parent.span_id == root.context.span_id
    assert root.parent is None
    assert root.end_time - root.start_time == 1_500_000_000


def test_the_root_has_the_names_of_the_genai_conventions():
    (root,) = spans(summary())

    assert root.attributes["gen_ai.operation.name"] == "chat"
    assert root.attributes["gen_ai.request.model"] == "tiny"
    assert root.attributes["gen_ai.usage.input_tokens"] == 10
    assert root.attributes["gen_ai.usage.output_tokens"] == 5
    assert root.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert "error.type" not in root.attributes
    assert root.status.is_unset


def test_a_request_that_failed_is_a_span_with_an_error():
    (root,) = spans(summary(outcome=Outcome.BACKEND_ERROR, error_code="generation_failed", usage=None))

    assert root.attributes["error.type"] == "generation_failed"
    assert not root.status.is_ok
    assert "gen_ai.usage.input_tokens" not in root.attributes


def test_requests_do_not_share_a_trace():
    one, other = spans(summary(), summary(request_id="r-2"))

    assert one.context.trace_id != other.context.trace_id


def test_a_collector_that_refuses_is_a_failed_batch():
    class Refusing(InMemorySpanExporter):
        def export(self, spans):
            return SpanExportResult.FAILURE

    sink = OtlpSink("http://unused", exporter=Refusing())

    with pytest.raises(ExportFailed):
        sink.deliver([])


def test_the_operation_says_whether_it_was_a_stream():
    def operation(**changes):
        (event,) = published_events(summary(**changes), TelemetryLevel.SUMMARY)
        return event.attributes["llama_stage.openai_operation"]

    assert operation() == "chat_completion_stream"
    assert operation(is_stream=False) == "chat_completion"
    assert operation(endpoint="completions") == "completion_stream"
