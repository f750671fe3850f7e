"""The hardware settings against real contexts, as far as a CPU goes; and what llama.cpp says it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from inference.engine.config import EngineConfig
from inference.engine.hardware import (
    ComputeDevice,
    FlashAttention,
    HardwareConfig,
    KvType,
    LoadMode,
    SplitMode,
)
from inference.engine.llama import LlamaModel, library
from inference.engine.llama.batch import LlamaBatch
from inference.engine.llama.context import DecodeStatus, LlamaContext
from inference.engine.llama.devices import list_devices, list_gpus
from inference.engine.llama.load_check import probe_shape
from inference.engine.llama.memory_use import used_memory
from inference.engine.load_error import ModelLoadError
from inference.engine.memory_plan import CELL_BOOK_BYTES
from tests.model.stepped_engine import SteppedEngine, chat
from tests.model.test_engine_context import plan_of, prompt
from tests.model.tiny_model import write_tiny_model

SMALL = EngineConfig(
    num_lanes=4, num_cells=512, max_batch_tokens=128, max_prefill_tokens_beside_decodes=64, num_threads=1,
    has_prefix_cache=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def wide_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of 32 values, as many as a quantized type keeps together."""
    return write_tiny_model(model_path, tmp_path_factory.mktemp("models") / "wide.gguf", width=128)


@pytest.fixture(scope="module")
def wide(wide_path: Path) -> Iterator[LlamaModel]:
    loaded = LlamaModel.load(wide_path, SMALL)
    yield loaded
    loaded.close()


def logits_of(model: LlamaModel, config: EngineConfig) -> np.ndarray:
    """Of the last of 100 tokens, computed in one batch."""
    context = LlamaContext(model, config)
    batch = LlamaBatch(context.max_batch_tokens)
    batch.fill(plan_of(prompt(0, [100 + 7 * index for index in range(100)])))
    assert context.decode(batch) is DecodeStatus.OK
    logits = context.logits(1)[0].copy()
    context.close()
    return logits


@pytest.fixture(scope="module")
def usual(wide: LlamaModel) -> np.ndarray:
    return logits_of(wide, SMALL)


def likeness(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first, second)[0, 1])


@pytest.mark.parametrize(
    ("hardware", "least"),
    [
        (HardwareConfig(key_type=KvType.F32, value_type=KvType.F32), 0.9999),
        (HardwareConfig(key_type=KvType.BF16, value_type=KvType.BF16), 0.999),
        (HardwareConfig(key_type=KvType.Q8_0, value_type=KvType.Q8_0), 0.999),
        (
            HardwareConfig(key_type=KvType.Q8_0, value_type=KvType.Q8_0, flash_attention=FlashAttention.ON),
            0.999,
        ),
        (HardwareConfig(key_type=KvType.Q8_0, flash_attention=FlashAttention.OFF), 0.999),
        (HardwareConfig(key_type=KvType.Q4_0, value_type=KvType.Q4_0), 0.98),
        (HardwareConfig(key_type=KvType.Q5_1, value_type=KvType.IQ4_NL), 0.98),
        (HardwareConfig(flash_attention=FlashAttention.OFF), 0.9999),
        (HardwareConfig(gpu_layers=0), 0.9999),
    ],
    ids=str,
)
def test_every_kind_of_cell_computes_alike(
    wide: LlamaModel, usual: np.ndarray, hardware: HardwareConfig, least: float
) -> None:
    found = logits_of(wide, replace(SMALL, hardware=hardware))
    assert np.isfinite(found).all()
    assert likeness(found, usual) > least


@pytest.mark.parametrize(
    "sizes",
    [
        {"max_ubatch_tokens": 32},
        {"max_ubatch_tokens": 1},
        {"max_ubatch_tokens": 4096},
        {"num_threads": 2, "num_batch_threads": 1},
        {"num_threads": 1, "num_batch_threads": 3},
    ],
    ids=str,
)
def test_sizes_of_batches_and_threads_change_nothing_of_what_is_said(
    wide: LlamaModel, usual: np.ndarray, sizes: dict[str, int]
) -> None:
    assert likeness(logits_of(wide, replace(SMALL, **sizes)), usual) > 0.9999


@pytest.mark.parametrize("kind", list(KvType))
def test_cells_take_the_bytes_that_are_planned(wide: LlamaModel, kind: KvType) -> None:
    config = replace(SMALL, hardware=HardwareConfig(key_type=kind, value_type=kind))
    context = LlamaContext(wide, config)
    (host,) = context.memory
    context.close()
    shape = probe_shape(wide.path)
    # llama.cpp tells hundredths of a MiB.
    assert host.kv_bytes == pytest.approx(512 * shape.kv_bytes_per_cell(kind, kind), abs=11_000)
    assert host.weights_bytes == pytest.approx(wide.size_bytes, abs=1_000_000)
    assert host.compute_bytes > 0
    assert host.free_bytes is None or host.free_bytes > 0


def test_the_real_model_takes_what_is_planned(model: LlamaModel) -> None:
    context = LlamaContext(model, EngineConfig())
    (host,) = context.memory
    context.close()
    shape = probe_shape(model.path)
    assert shape.weights_bytes == model.size_bytes
    assert host.kv_bytes == 16_384 * shape.kv_bytes_per_cell(KvType.F16, KvType.F16)
    # Beside it llama.cpp has a row of logits for each sequence.
    assert host.compute_bytes < 1.1 * shape.compute_bytes(EngineConfig()) + 80 * 49_152 * 4


def test_where_llama_does_not_tell_the_plan_is_shown(wide: LlamaModel) -> None:
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    try:
        context = LlamaContext(wide, SMALL)
    finally:
        llama_cpp.llama_log_set(library.log_callback, None)
    (host,) = context.memory
    context.close()
    shape = probe_shape(wide.path)
    assert host.kv_bytes == 512 * (shape.kv_bytes_per_cell(KvType.F16, KvType.F16) + CELL_BOOK_BYTES)
    assert host.compute_bytes == shape.compute_bytes(SMALL)


def test_heads_that_are_no_whole_blocks_are_refused(tiny_model: LlamaModel) -> None:
    config = replace(SMALL, hardware=HardwareConfig(key_type=KvType.Q8_0))
    with pytest.raises(ModelLoadError, match=r"^SKIPPY_KV_TYPE_K is q8_0.*heads have 16"):
        LlamaContext(tiny_model, config)
    with pytest.raises(ModelLoadError, match="SKIPPY_KV_TYPE_K"):
        LlamaModel.load(tiny_model.path, config)


@pytest.mark.skipif(bool(list_gpus()), reason="this build has a GPU")
@pytest.mark.parametrize(
    "hardware",
    [
        HardwareConfig(gpu_layers=10),
        HardwareConfig(split_mode=SplitMode.ROW),
        HardwareConfig(tensor_split=(1.0, 2.0)),
    ],
    ids=str,
)
def test_gpu_settings_are_refused_where_there_is_no_gpu(
    tiny_model_path: Path, hardware: HardwareConfig
) -> None:
    with pytest.raises(ModelLoadError, match="asks for a GPU"):
        LlamaModel.load(tiny_model_path, replace(SMALL, hardware=hardware))


@pytest.mark.parametrize("mode", [LoadMode.MMAP, LoadMode.READ])
def test_weights_can_be_mapped_or_read(wide_path: Path, usual: np.ndarray, mode: LoadMode) -> None:
    config = replace(SMALL, hardware=HardwareConfig(load_mode=mode))
    loaded = LlamaModel.load(wide_path, config)
    assert any(name.endswith("_Mapped") for name, _, _ in loaded.buffers) is (mode is LoadMode.MMAP)
    assert likeness(logits_of(loaded, config), usual) > 0.9999
    loaded.close()


def test_a_probe_reads_a_damaged_file_like_any_other(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(ModelLoadError, match="damaged or of an unknown kind"):
        probe_shape(cut)
    with pytest.raises(ModelLoadError, match="no model file"):
        probe_shape(tmp_path / "none.gguf")


def test_the_devices_of_this_build_are_known() -> None:
    devices = list_devices()
    assert [device.name for device in devices if not device.is_gpu][-1:] == ["CPU"]
    assert all(device.description for device in devices)


def test_buffers_belong_to_the_device_that_holds_them() -> None:
    gpus = [ComputeDevice(f"CUDA{index}", "made up", True, 900, 1000) for index in (0, 1)]
    buffers = [
        ("CPU_Mapped", "model", 50),
        ("CUDA0", "model", 100),
        ("CUDA1", "model", 200),
        ("CUDA0", "KV", 10),
        ("CUDA_Host", "output", 3),
        ("CUDA_Host", "compute", 4),
        ("CUDA1", "compute", 5),
        ("CPU", "RS", 6),
    ]
    host, first, second = used_memory(buffers, gpus, 1000)
    assert (host.weights_bytes, host.kv_bytes, host.compute_bytes, host.free_bytes) == (50, 6, 7, 950)
    assert (first.weights_bytes, first.kv_bytes, first.compute_bytes, first.free_bytes) == (100, 10, 0, 900)
    assert (second.weights_bytes, second.kv_bytes, second.compute_bytes) == (200, 0, 5)


def test_the_engine_generates_with_quantized_cells_and_shares_them(model: LlamaModel) -> None:
    config = EngineConfig(
        num_lanes=4,
        num_cells=1024,
        max_batch_tokens=128,
        max_ubatch_tokens=32,
        max_prefill_tokens_beside_decodes=64,
        hardware=HardwareConfig(key_type=KvType.Q8_0, value_type=KvType.Q8_0),
    )
    with SteppedEngine(model, config) as engine:
        first = engine.submit("first", chat("Count from one to ten, and say nothing else at all. " * 8))
        engine.run()
        second = engine.submit("second", chat("Count from one to ten, and say nothing else at all. " * 8))
        engine.run()
        assert first.token_ids == second.token_ids
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.cache.total_hits == 1
        assert statistics.memory == engine.runner.memory
        assert 0 < statistics.total_phases.compute_s < statistics.total_phases.total_s
        assert statistics.recent.num_steps == statistics.total_steps
        engine.check_all_free()
