from __future__ import annotations

from dataclasses import replace

import pytest

from inference.engine.config import EngineConfig
from inference.engine.hardware import (
    ALL_LAYERS,
    ComputeDevice,
    FlashAttention,
    HardwareConfig,
    KvType,
    LoadMode,
    SplitMode,
)
from inference.engine.load_error import ModelDoesNotFit, ModelLoadError
from inference.engine.memory_plan import (
    CELL_BOOK_BYTES,
    ModelShape,
    Placement,
    check_it_fits,
    check_they_fit,
    place_layers,
    plan_memory,
)

GB = 1_000_000_000
# SmolLM2-135M as Q8_0.
SMALL = ModelShape("small.gguf", 143_025_408, 30, 576, 1536, 9, 3, 64, 64, 49_152, 30)
# About a model of 7 billion parameters as Q4.
LARGE = ModelShape("large.gguf", 4 * GB, 32, 4096, 11_008, 32, 32, 128, 128, 32_000, 32)


def gpu(index: int, free_gb: float) -> ComputeDevice:
    return ComputeDevice(f"CUDA{index}", "made up", True, int(free_gb * GB), 24 * GB)


def config_of(num_cells: int = 4096, **hardware: object) -> EngineConfig:
    return EngineConfig(num_cells=num_cells, hardware=HardwareConfig(**hardware))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key_type", "value_type", "mebibytes"),
    [
        # What llama.cpp reserved for 4,096 cells.
        (KvType.F16, KvType.F16, 90.0),
        (KvType.F32, KvType.F32, 180.0),
        (KvType.Q8_0, KvType.F16, 68.91),
        (KvType.Q4_0, KvType.Q4_0, 25.31),
    ],
)
def test_kv_bytes_are_those_that_llama_reserves(
    key_type: KvType, value_type: KvType, mebibytes: float
) -> None:
    num_bytes = 4096 * SMALL.kv_bytes_per_cell(key_type, value_type)
    assert num_bytes / 1024**2 == pytest.approx(mebibytes, abs=0.005)


def test_compute_bytes_are_about_those_that_llama_reserves() -> None:
    config = EngineConfig(num_cells=4096, has_prefix_cache=False)
    assert SMALL.compute_bytes(config) / 1024**2 == pytest.approx(17.5, rel=0.1)
    off = replace(config, hardware=HardwareConfig(flash_attention=FlashAttention.OFF))
    assert 85 < SMALL.compute_bytes(off) / 1024**2 < 100
    smaller = replace(off, max_ubatch_tokens=64)
    assert SMALL.compute_bytes(smaller) < SMALL.compute_bytes(off) / 4


@pytest.mark.parametrize(
    ("hardware", "free_gb", "expected"),
    [
        ({}, [], Placement((), None)),
        ({}, [8], Placement((30,), 0)),
        ({"gpu_layers": 0}, [8], Placement((), None)),
        ({"gpu_layers": 10}, [8], Placement((9,), 0)),
        ({"gpu_layers": 1}, [8], Placement((0,), 0)),
        ({"gpu_layers": 1000}, [8], Placement((30,), 0)),
        ({}, [8, 8], Placement((16, 14), 1)),
        ({}, [12, 4], Placement((24, 6), 1)),
        ({"tensor_split": (1.0,)}, [8, 8], Placement((30, 0), 0)),
        ({"tensor_split": (0.0, 1.0)}, [8, 8], Placement((0, 30), 1)),
        ({"tensor_split": (3.0, 1.0)}, [1, 8], Placement((24, 6), 1)),
        ({"split_mode": SplitMode.NONE, "main_gpu": 1}, [8, 8], Placement((30,), 0)),
        ({}, [0, 0], Placement((16, 14), 1)),
    ],
)
def test_layers_go_where_llama_puts_them(
    hardware: dict[str, object], free_gb: list[float], expected: Placement
) -> None:
    gpus = [gpu(index, free) for index, free in enumerate(free_gb)]
    assert place_layers(30, config_of(**hardware), gpus) == expected  # type: ignore[arg-type]


def test_on_a_cpu_all_is_in_its_memory() -> None:
    (host,) = plan_memory(SMALL, config_of(), [], 2 * GB)
    assert host.device == "CPU"
    assert host.weights_bytes == SMALL.weights_bytes
    assert host.kv_bytes == 4096 * (23_040 + CELL_BOOK_BYTES)
    assert host.free_bytes == 2 * GB - host.needed_bytes
    assert plan_memory(SMALL, config_of(), [], None)[0].free_bytes is None


def test_weights_and_cells_follow_the_layers() -> None:
    gpus = [gpu(0, 8), gpu(1, 8)]
    host, first, second = plan_memory(LARGE, config_of(), gpus, 16 * GB)
    assert [plan.device for plan in (host, first, second)] == ["CPU", "CUDA0", "CUDA1"]
    kv_bytes = 4096 * LARGE.kv_bytes_per_cell(KvType.F16, KvType.F16)
    assert first.kv_bytes + second.kv_bytes == kv_bytes
    assert host.kv_bytes == 4096 * CELL_BOOK_BYTES
    assert host.weights_bytes + first.weights_bytes + second.weights_bytes == LARGE.weights_bytes
    assert host.weights_bytes < LARGE.weights_bytes / 20

    host, only = plan_memory(LARGE, config_of(gpu_layers=17), gpus[:1], 16 * GB)
    assert only.kv_bytes == kv_bytes // 2
    assert host.kv_bytes == kv_bytes // 2 + 4096 * CELL_BOOK_BYTES


def test_a_gpu_that_does_not_tell_its_memory_is_not_judged() -> None:
    silent = ComputeDevice("Vulkan0", "made up", True)
    plans = plan_memory(LARGE, config_of(num_cells=1_000_000), [silent], None)
    assert plans[1].free_bytes is None
    check_it_fits(LARGE, config_of(num_cells=1_000_000), plans)


def test_cells_that_do_not_fit_are_one_sentence_with_numbers() -> None:
    config = config_of(num_cells=100_000)
    with pytest.raises(
        ModelLoadError, match=r"^large\.gguf does not fit: 100000 KV cells need 52\.4 GB"
    ) as caught:
        check_it_fits(LARGE, config, plan_memory(LARGE, config, [], 20 * GB))
    assert "20.0 GB are free" in str(caught.value)
    assert "SKIPPY_CONTEXT" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_is_too_small_is_named() -> None:
    config = config_of(tensor_split=(1.0, 4.0))
    gpus = [gpu(0, 20), gpu(1, 4)]
    with pytest.raises(ModelLoadError, match=r"does not fit on CUDA1.*SKIPPY_GPU_LAYERS"):
        check_it_fits(LARGE, config, plan_memory(LARGE, config, gpus, 64 * GB))
    check_it_fits(LARGE, config_of(), plan_memory(LARGE, config_of(), [gpu(0, 20)], 64 * GB))


def test_mapped_weights_need_not_fit_and_others_must() -> None:
    free_bytes = 3 * GB
    for mode, fits in [
        (LoadMode.AUTO, True),
        (LoadMode.MMAP, True),
        (LoadMode.READ, False),
        (LoadMode.MLOCK, False),
    ]:
        config = config_of(num_cells=1024, load_mode=mode)
        plans = plan_memory(LARGE, config, [], free_bytes)
        if fits:
            check_it_fits(LARGE, config, plans)
        else:
            with pytest.raises(ModelLoadError, match=r"4\.0 GB of weights, and 3\.0 GB are free"):
                check_it_fits(LARGE, config, plans)


def test_what_is_loaded_is_not_counted_twice() -> None:
    config = config_of(num_cells=1024, load_mode=LoadMode.READ)
    placement = place_layers(LARGE.num_layers, config, [])
    plans = plan_memory(LARGE, config, [], 3 * GB, placement=placement)
    check_it_fits(LARGE, config, plans, is_loaded=True)
    plans = plan_memory(LARGE, config, [], GB // 10, placement=placement)
    with pytest.raises(ModelLoadError, match="100 MB are free"):
        check_it_fits(LARGE, config, plans, is_loaded=True)


def test_memory_is_told_in_one_line() -> None:
    (host,) = plan_memory(SMALL, config_of(), [], 2 * GB)
    assert str(host).startswith("CPU: weights 143 MB, KV cells 95 MB, compute ")
    assert str(host).endswith("GB left")
    assert "left" not in str(replace(host, free_bytes=None))


def test_beside_others_what_is_loaded_later_finds_what_is_left() -> None:
    config = config_of()
    (alone,) = plan_memory(LARGE, config, [], 100 * GB)
    (draft,) = plan_memory(SMALL, config, [], 100 * GB)
    parts = [(LARGE, config), (SMALL, config)]
    needed_bytes = alone.needed_bytes + draft.needed_bytes + GB
    check_they_fit(parts, [], needed_bytes, extra_bytes=GB)
    check_they_fit(parts, [], None, extra_bytes=GB)
    # Of what is missing, the one that finds too little is named.
    for free_bytes, named in [
        (alone.needed_bytes - 1, r"^large\.gguf does not fit: 4096"),
        (alone.needed_bytes + draft.needed_bytes - 1, r"^small\.gguf does not fit: 4096"),
        (needed_bytes - 1, r"^large\.gguf does not fit: its adapters.*1\.0 GB.*SKIPPY_HOST_CACHE_BYTES"),
    ]:
        with pytest.raises(ModelDoesNotFit, match=named):
            check_they_fit(parts, [], free_bytes, extra_bytes=GB)


def test_beside_others_a_draft_model_needs_room_on_the_gpu_too() -> None:
    config = config_of(gpu_layers=ALL_LAYERS)
    parts = [(LARGE, config), (SMALL, config)]
    _, on_gpu = plan_memory(LARGE, config, [gpu(0, 20)], None)
    check_they_fit(parts, [gpu(0, 20)], None, extra_bytes=0)
    tight = replace(gpu(0, 20), free_bytes=on_gpu.needed_bytes)
    check_they_fit(parts[:1], [tight], None, extra_bytes=0)
    with pytest.raises(ModelDoesNotFit, match=r"^small\.gguf does not fit on CUDA0"):
        check_they_fit(parts, [tight], None, extra_bytes=0)


def test_a_hybrid_has_cells_for_the_layers_that_attend_wherever_they_lie() -> None:
    hybrid = replace(LARGE, num_kv_layers=8)
    cell_bytes = LARGE.kv_bytes_per_cell(KvType.F16, KvType.F16) // 4
    assert hybrid.kv_bytes_per_cell(KvType.F16, KvType.F16) == cell_bytes
    (host,) = plan_memory(hybrid, config_of(), (), None)
    assert host.kv_bytes == 4096 * (cell_bytes + CELL_BOOK_BYTES)
    host, first = plan_memory(hybrid, config_of(gpu_layers=10), (gpu(0, 24),), None)
    layer_bytes = 4096 * cell_bytes // 8
    # 9 layers and the output there: 9 ÷ 4, and 23 ÷ 4, both rounded up.
    assert (first.kv_bytes, host.kv_bytes) == (3 * layer_bytes, 6 * layer_bytes + 4096 * CELL_BOOK_BYTES)
