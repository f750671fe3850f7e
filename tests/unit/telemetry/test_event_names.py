import json
import logging

import pytest

from inference.domain.admission_events import (
    Admitted,
    ConcurrencyAdapted,
    FrameKind,
    LaneFreed,
    LimitAction,
    LimitReason,
    ReceiverOutcome,
    Rejected,
)
from inference.domain.phases import MediaEncoded
from inference.domain.rejection_reason import RejectionReason
from inference.telemetry.event_names import event_attributes, event_name
from inference.telemetry.recorder import LogRecorder

ADMITTED = Admitted("r-1", 3, 16, True, 1.5, 2.0, 528, 1056, 4096)
REJECTED = Rejected("r-2", RejectionReason.PREDICTED_WAIT, 16, 16, 75.25)
ADAPTED = ConcurrencyAdapted(
    LimitAction.PROBE,
    LimitReason.HARDWARE_HEADROOM,
    1,
    2,
    4,
    tokens_per_s=800.0,
    p95_latency_s=0.1,
    num_observed=16,
    num_saturated=15,
)
FREED = LaneFreed("r-3", ReceiverOutcome.STALLED, FrameKind.TERMINAL, 10.0)


def test_an_admission_tells_queue_wait_and_token_budget():
    assert event_name(ADMITTED) == "stage.openai_generation_admit"
    assert event_attributes(ADMITTED) == {
        "skippy.request_id": "r-1",
        "llama_stage.openai_phase": "generation_admit",
        "llama_stage.generation_queue_depth": 3,
        "skippy.scheduler.admission_waiting": 3,
        "llama_stage.generation_queue_capacity": 16,
        "llama_stage.generation_predicted_wait_ms": 2000.0,
        "llama_stage.elapsed_ms": 1500.0,
        "skippy.admission.has_waited": True,
        "llama_stage.kv_reserved_tokens": 528,
        "llama_stage.kv_active_reserved_tokens": 1056,
        "llama_stage.kv_capacity_tokens": 4096,
    }


def test_a_rejection_tells_its_reason_and_leaves_out_what_was_not_known():
    assert event_name(REJECTED) == "stage.openai_generation_admission_rejected"
    assert event_attributes(REJECTED) == {
        "skippy.request_id": "r-2",
        "llama_stage.generation_queue_depth": 16,
        "llama_stage.generation_queue_capacity": 16,
        "llama_stage.generation_admission_status": "rejected",
        "llama_stage.generation_admission_error": "predicted_wait",
        "llama_stage.generation_predicted_wait_ms": 75_250.0,
    }
    unknown = Rejected("r", RejectionReason.QUEUE_FULL, 1, 1, None)
    assert "llama_stage.generation_predicted_wait_ms" not in event_attributes(unknown)


def test_a_change_of_the_limit_tells_what_it_was_decided_upon():
    assert event_name(ADAPTED) == "stage.openai_generation_concurrency_adapt"
    assert event_attributes(ADAPTED) == {
        "llama_stage.generation_concurrency_action": "probe",
        "llama_stage.generation_concurrency_reason": "hardware-headroom",
        "llama_stage.generation_concurrency_previous": 1,
        "llama_stage.generation_concurrency_current": 2,
        "llama_stage.generation_concurrency_ceiling": 4,
        "llama_stage.generation_throughput_tokens_per_second": 800.0,
        "llama_stage.generation_p95_latency_ms": 100.0,
        "llama_stage.generation_observed_requests": 16,
        "llama_stage.generation_saturated_requests": 15,
    }


def test_a_freed_lane_names_the_request_and_what_was_wrong_with_its_reader():
    assert event_name(FREED) == "stage.openai_stream_lane_freed"
    assert event_attributes(FREED) == {
        "skippy.request_id": "r-3",
        "skippy.stream.outcome": "receiver_stalled",
        "skippy.stream.frame_kind": "terminal",
        "skippy.stream.stall_timeout_ms": 10_000,
    }


@pytest.mark.parametrize("event", [ADMITTED, REJECTED, ADAPTED, FREED])
def test_the_log_has_one_line_for_each_event_whose_numbers_a_program_can_read(event, caplog):
    with caplog.at_level(logging.DEBUG, logger="inference.events"):
        LogRecorder().record_event(event)

    (line,) = caplog.messages
    name, _, attributes = line.partition(" ")
    assert name == event_name(event)
    assert json.loads(attributes) == event_attributes(event)


@pytest.mark.parametrize(("event", "num_lines"), [(ADMITTED, 0), (REJECTED, 0), (ADAPTED, 1), (FREED, 1)])
def test_what_the_line_of_a_request_says_is_no_line_of_its_own(event, num_lines, caplog):
    with caplog.at_level(logging.INFO, logger="inference.events"):
        LogRecorder().record_event(event)
    assert len(caplog.messages) == num_lines


def test_reading_pictures_has_a_span_of_its_own() -> None:
    event = MediaEncoded("r-1", 0.25, num_items=2, num_tokens=32)
    assert event_name(event) == "stage.openai_media_prefill"
    found = event_attributes(event)
    assert found["llama_stage.openai_phase"] == "media_prefill"
    assert (found["llama_stage.media_count"], found["llama_stage.media_tokens"]) == (2, 32)
    assert found["llama_stage.elapsed_ms"] == 250
