"""Hardware settings on a live service, and what it tells of itself to callers on its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.engine.llama.devices import list_gpus
from tests.contract.api.conftest import LiveService, start_service, stop_service


def test_statistics_tell_memory_time_and_speed(live: LiveService) -> None:
    assert live.chat("Count to ten.", max_tokens=12).status_code == 200
    engine = live.statistics()["engine"]

    host = engine["memory"][0]
    assert host["device"] == "CPU"
    assert host["weights_bytes"] > 50_000_000
    assert host["kv_bytes"] == engine["num_cells"] * 23_040
    phases = engine["total_phases"]
    assert phases["compute_s"] > phases["schedule_s"] > 0
    assert phases["sample_s"] > 0
    assert phases["update_s"] > 0
    recent = engine["recent"]
    assert 0 < recent["window_s"] < 12
    assert recent["num_steps"] > 0
    assert recent["generated_tokens_per_s"] > 0
    assert recent["mean_phases"]["compute_s"] > 0
    assert engine["max_step_s"] >= engine["last_phases"]["compute_s"]
    assert engine["total_turns"] > 0
    assert engine["total_integrity_faults"] == 0


def test_a_service_with_other_settings_answers(tmp_path: Path) -> None:
    service = start_service(
        tmp_path,
        "daphne",
        SKIPPY_KV_TYPE_K="q8_0",
        SKIPPY_KV_TYPE_V="q8_0",
        SKIPPY_FLASH_ATTENTION="on",
        SKIPPY_BATCH="64",
        SKIPPY_MICRO_BATCH="32",
        SKIPPY_BATCH_THREADS="1",
        SKIPPY_CONTEXT="1024",
        SKIPPY_LOAD_MODE="read",
        SKIPPY_WATCHDOG_S="20",
    )
    try:
        assert service.chat("Say hi " * 100).status_code == 200
        memory = service.statistics()["engine"]["memory"][0]
        assert memory["kv_bytes"] == pytest.approx(1024 * 12_240, abs=11_000)
        assert "Memory of" in service.log.read_text()
    finally:
        stop_service(service)


@pytest.mark.skipif(bool(list_gpus()), reason="this build has a GPU")
def test_a_gpu_that_is_not_there_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="did not get ready") as caught:
        start_service(tmp_path, "daphne", SKIPPY_GPU_LAYERS="10")
    log = str(caught.value)
    assert "could not be loaded: SKIPPY_GPU_LAYERS asks for a GPU" in log
    assert "Traceback" not in log
