"""What of the machine a model may use, and in which form its KV cells are kept.

The same settings serve CPU and GPU. One that would have no effect is refused, not ignored: whoever
asks for a GPU and gets none should learn it at start, not from the bill.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from inference.engine.load_error import ModelLoadError

ALL_LAYERS = -1


class SplitMode(Enum):
    """How several GPUs share a model."""

    NONE = "none"
    """One GPU has it all (`main_gpu`)."""
    LAYER = "layer"
    """Each has some layers, with their KV cells."""
    ROW = "row"
    """Each has some rows of every matrix."""


class FlashAttention(Enum):
    """Attention without a matrix of all scores: less memory, and quantized V at all."""

    AUTO = "auto"
    """Where the device can do it."""
    ON = "on"
    OFF = "off"


class LoadMode(Enum):
    """How weights get from the file into memory."""

    AUTO = "auto"
    """As llama.cpp thinks best: mapped, on most systems."""
    MMAP = "mmap"
    """Mapped from the file: starts at once, and the system may drop pages and read them again."""
    READ = "read"
    """Read as a whole into memory of our own."""
    MLOCK = "mlock"
    """Mapped, and kept in memory whatever else wants it; the system's limit must allow that."""


class KvType(Enum):
    """In which form K or V are kept. The third and fourth value: bytes and values of one block
    (ggml-common.h)."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q5_1 = "q5_1"
    Q5_0 = "q5_0"
    Q4_1 = "q4_1"
    Q4_0 = "q4_0"
    IQ4_NL = "iq4_nl"

    @property
    def block_bytes(self) -> int:
        return _BLOCKS[self][0]

    @property
    def block_values(self) -> int:
        """A head's values must be a multiple of this."""
        return _BLOCKS[self][1]

    @property
    def is_quantized(self) -> bool:
        return self.block_values > 1

    def bytes_of(self, num_values: int) -> int:
        return -(-num_values // self.block_values) * self.block_bytes


# A block of 32 values: half-precision scale (and minimum), then 8, 5 or 4 bits for each.
_BLOCKS = {
    KvType.F32: (4, 1),
    KvType.F16: (2, 1),
    KvType.BF16: (2, 1),
    KvType.Q8_0: (34, 32),
    KvType.Q5_1: (24, 32),
    KvType.Q5_0: (22, 32),
    KvType.Q4_1: (20, 32),
    KvType.Q4_0: (18, 32),
    KvType.IQ4_NL: (18, 32),
}


@dataclass(frozen=True, slots=True)
class ComputeDevice:
    """Something that ggml can compute on. Bytes are 0 where it does not tell."""

    name: str
    description: str
    is_gpu: bool
    free_bytes: int = 0
    total_bytes: int = 0

    def __str__(self) -> str:
        memory = f", {self.free_bytes / 1e9:.1f} of {self.total_bytes / 1e9:.1f} GB free"
        return f"{self.name} ({self.description}{memory if self.is_gpu else ''})"


@dataclass(frozen=True, slots=True)
class HardwareConfig:
    """Checked when made: ValueError with one sentence that names the field at fault.

    `gpu_layers`: layers that GPUs compute; ALL_LAYERS, or None: all where there is a GPU.
    `tensor_split`: the share of each GPU, in any unit; empty: by their free memory.
    `main_gpu`: the one that has it all where `split_mode` is NONE.
    `has_full_window`: layers with a sliding window keep all tokens, too, not only those that it shows.
    That takes more memory, and a text's beginning can be shared.
    """

    gpu_layers: int | None = None
    split_mode: SplitMode = SplitMode.LAYER
    tensor_split: tuple[float, ...] = ()
    main_gpu: int = 0
    key_type: KvType = KvType.F16
    value_type: KvType = KvType.F16
    flash_attention: FlashAttention = FlashAttention.AUTO
    load_mode: LoadMode = LoadMode.AUTO
    has_full_window: bool = True

    def __post_init__(self) -> None:
        if self.gpu_layers is not None and self.gpu_layers < ALL_LAYERS:
            raise ValueError(f"gpu_layers must be all (-1), 0 or a number of layers, not {self.gpu_layers}")
        if not all(math.isfinite(share) and share >= 0 for share in self.tensor_split):
            raise ValueError(f"tensor_split must be a list of numbers from 0, not {self.tensor_split}")
        if self.tensor_split and not sum(self.tensor_split):
            raise ValueError("tensor_split must give a share to one GPU at least")
        if self.tensor_split and self.split_mode is SplitMode.NONE:
            raise ValueError("tensor_split must be left out where split_mode is none: one GPU has it all")
        if self.main_gpu < 0:
            raise ValueError(f"main_gpu must be the number of a GPU, from 0, not {self.main_gpu}")
        if self.main_gpu and self.split_mode is not SplitMode.NONE:
            raise ValueError("main_gpu must be left out unless split_mode is none: all GPUs share the model")
        if self.value_type.is_quantized and self.flash_attention is FlashAttention.OFF:
            raise ValueError(
                f"flash_attention must not be off where kv_type_v is {self.value_type.value}: quantized V "
                "works with flash attention only"
            )

    @property
    def maps_weights(self) -> bool:
        """The CPU's weights are pages of the file, which the system may drop and read again."""
        return self.load_mode in (LoadMode.AUTO, LoadMode.MMAP)

    @property
    def wants_gpu(self) -> bool:
        """Somebody asked for what only a GPU can do."""
        return (
            self.gpu_layers not in (None, 0)
            or self.split_mode is not SplitMode.LAYER
            or bool(self.tensor_split)
            or bool(self.main_gpu)
        )

    def gpus_in_use(self, gpus: Sequence[ComputeDevice]) -> tuple[ComputeDevice, ...]:
        """Those that would get a part of the model, in llama.cpp's order."""
        if self.gpu_layers == 0:
            return ()
        if self.split_mode is SplitMode.NONE:
            return tuple(gpus[self.main_gpu : self.main_gpu + 1])
        return tuple(gpus)

    def check_devices(self, gpus: Sequence[ComputeDevice]) -> None:
        """Raise ModelLoadError where the settings ask for GPUs that are not there."""
        if not gpus and self.wants_gpu:
            setting = (
                "SKIPPY_GPU_LAYERS"
                if self.gpu_layers not in (None, 0)
                else "SKIPPY_TENSOR_SPLIT"
                if self.tensor_split
                else "SKIPPY_SPLIT_MODE"
            )
            raise ModelLoadError(
                f"{setting} asks for a GPU, and this build of llama.cpp finds none "
                "(docs/hardware.md says how to build for one)."
            )
        if len(self.tensor_split) > max(len(gpus), 1):
            raise ModelLoadError(
                f"SKIPPY_TENSOR_SPLIT has {len(self.tensor_split)} shares, and there are {len(gpus)} GPUs."
            )
        if gpus and self.main_gpu >= len(gpus):
            raise ModelLoadError(
                f"SKIPPY_MAIN_GPU is {self.main_gpu}, and there are {len(gpus)} GPUs, counted from 0."
            )

    def check_heads(self, *, key_length: int, value_length: int) -> None:
        """Raise ModelLoadError where a head does not consist of whole blocks of the KV types."""
        for setting, kind, length in (
            ("SKIPPY_KV_TYPE_K", self.key_type, key_length),
            ("SKIPPY_KV_TYPE_V", self.value_type, value_length),
        ):
            if length % kind.block_values:
                raise ModelLoadError(
                    f"{setting} is {kind.value}, which keeps {kind.block_values} values together, and this "
                    f"model's heads have {length}: choose f16, bf16 or f32."
                )
