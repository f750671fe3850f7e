from __future__ import annotations

import pytest

from inference.engine.hardware import (
    ALL_LAYERS,
    ComputeDevice,
    FlashAttention,
    HardwareConfig,
    KvType,
    SplitMode,
)
from inference.engine.load_error import ModelLoadError

GPUS = [ComputeDevice(f"CUDA{index}", "made up", True, 8_000_000_000, 10_000_000_000) for index in range(2)]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"gpu_layers": -2}, "^gpu_layers must"),
        ({"tensor_split": (1.0, -1.0)}, "^tensor_split must"),
        ({"tensor_split": (float("inf"),)}, "^tensor_split must"),
        ({"tensor_split": (0.0, 0.0)}, "^tensor_split must"),
        ({"tensor_split": (1.0,), "split_mode": SplitMode.NONE}, "^tensor_split must be left out"),
        ({"main_gpu": -1}, "^main_gpu must"),
        ({"main_gpu": 1}, "^main_gpu must be left out"),
        ({"value_type": KvType.Q4_0, "flash_attention": FlashAttention.OFF}, "^flash_attention must not"),
    ],
)
def test_what_cannot_be_is_one_sentence_that_names_its_field(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        HardwareConfig(**fields)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_quantized_k_alone_needs_no_flash_attention() -> None:
    HardwareConfig(key_type=KvType.Q8_0, flash_attention=FlashAttention.OFF)


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (HardwareConfig(gpu_layers=1), "SKIPPY_GPU_LAYERS"),
        (HardwareConfig(gpu_layers=ALL_LAYERS), "SKIPPY_GPU_LAYERS"),
        (HardwareConfig(split_mode=SplitMode.ROW), "SKIPPY_SPLIT_MODE"),
        (HardwareConfig(tensor_split=(1.0,)), "SKIPPY_TENSOR_SPLIT"),
        (HardwareConfig(main_gpu=1, split_mode=SplitMode.NONE), "SKIPPY_SPLIT_MODE"),
    ],
)
def test_asking_for_a_gpu_where_there_is_none_is_refused(config: HardwareConfig, setting: str) -> None:
    with pytest.raises(ModelLoadError, match=f"^{setting} asks for a GPU"):
        config.check_devices([])


def test_the_defaults_and_no_layers_suit_any_machine() -> None:
    for gpus in ([], GPUS):
        HardwareConfig().check_devices(gpus)
        HardwareConfig(gpu_layers=0).check_devices(gpus)


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (HardwareConfig(tensor_split=(1.0, 1.0, 1.0)), "SKIPPY_TENSOR_SPLIT has 3 shares"),
        (HardwareConfig(main_gpu=2, split_mode=SplitMode.NONE), "SKIPPY_MAIN_GPU is 2"),
    ],
)
def test_more_gpus_than_there_are_is_refused(config: HardwareConfig, setting: str) -> None:
    with pytest.raises(ModelLoadError, match=f"^{setting}"):
        config.check_devices(GPUS)


def test_who_gets_a_part_of_the_model() -> None:
    assert HardwareConfig().gpus_in_use(GPUS) == tuple(GPUS)
    assert HardwareConfig(gpu_layers=0).gpus_in_use(GPUS) == ()
    one = HardwareConfig(split_mode=SplitMode.NONE, main_gpu=1)
    assert one.gpus_in_use(GPUS) == (GPUS[1],)
    assert HardwareConfig().gpus_in_use([]) == ()


@pytest.mark.parametrize(
    ("kind", "num_values", "num_bytes"),
    [
        (KvType.F32, 64, 256),
        (KvType.F16, 64, 128),
        (KvType.BF16, 1, 2),
        (KvType.Q8_0, 64, 68),
        (KvType.Q4_0, 64, 36),
        (KvType.Q4_0, 33, 36),
        (KvType.Q8_0, 0, 0),
    ],
)
def test_a_type_says_how_many_bytes_its_values_take(kind: KvType, num_values: int, num_bytes: int) -> None:
    assert kind.bytes_of(num_values) == num_bytes


def test_heads_consist_of_whole_blocks() -> None:
    config = HardwareConfig(key_type=KvType.Q8_0, value_type=KvType.Q4_0)
    config.check_heads(key_length=64, value_length=128)
    with pytest.raises(ModelLoadError, match=r"^SKIPPY_KV_TYPE_K is q8_0"):
        config.check_heads(key_length=80, value_length=64)
    with pytest.raises(ModelLoadError, match=r"^SKIPPY_KV_TYPE_V is q4_0"):
        config.check_heads(key_length=64, value_length=80)
    HardwareConfig().check_heads(key_length=80, value_length=7)


def test_a_device_is_one_line() -> None:
    assert str(GPUS[0]) == "CUDA0 (made up, 8.0 of 10.0 GB free)"
    assert str(ComputeDevice("CPU", "a processor", False, 5, 5)) == "CPU (a processor)"
