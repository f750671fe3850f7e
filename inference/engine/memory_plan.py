"""How much memory a model takes, on which device, and whether that is there.

KV cells and buffers are only touched when they are used, so what does not fit is made without an
error, and the system ends the process in the middle of somebody's answer. A GPU's driver does
refuse, but in words that name no setting. So it is counted before.

Sources: llama-kv-cache.cpp (sizes of K and V), llama-model.cpp, `get_layer_buft_list` (which layer
goes to which GPU). The size of compute buffers is an estimate: compared with what llama.cpp reserved
for a model of 30 layers, it is right to 5 % with flash attention and 10 % too high without.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from inference.engine.config import EngineConfig
from inference.engine.hardware import ALL_LAYERS, ComputeDevice, FlashAttention, KvType
from inference.engine.load_error import ModelDoesNotFit

# What llama.cpp keeps for each cell besides: position, shift, and a bit for each of 256 sequences.
CELL_BOOK_BYTES = 64
HOST = "CPU"


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model that its memory follows from. `key_length` and `value_length` are values
    of one head; `num_kv_heads` is 0 where the memory does not grow with the text, and `num_kv_layers` of the
    layers have so many."""

    name: str
    weights_bytes: int
    num_layers: int
    width: int
    feed_forward_width: int
    num_heads: int
    num_kv_heads: int
    key_length: int
    value_length: int
    num_vocabulary: int
    num_kv_layers: int

    def kv_bytes_per_cell_and_layer(self, key_type: KvType, value_type: KvType) -> int:
        return key_type.bytes_of(self.num_kv_heads * self.key_length) + value_type.bytes_of(
            self.num_kv_heads * self.value_length
        )

    def kv_bytes_per_cell(self, key_type: KvType, value_type: KvType) -> int:
        """Bytes of K and V of one token: layers that have some · KV heads · head size · bytes, for both."""
        return self.num_kv_layers * self.kv_bytes_per_cell_and_layer(key_type, value_type)

    def kv_layers_of(self, num_layers: int) -> int:
        """How many of some layers have KV cells: they are taken to be evenly spread, and one more rather
        than one less."""
        return -(-num_layers * self.num_kv_layers // self.num_layers) if self.num_layers else 0

    def compute_bytes(self, config: EngineConfig) -> int:
        """About what one device needs for a micro batch: activations of a layer, the mask, the scores
        of attention where they are written down, and the logits."""
        num_tokens = min(config.max_ubatch_tokens, config.max_batch_tokens)
        has_flash = config.hardware.flash_attention is not FlashAttention.OFF
        activations = num_tokens * (2 * self.feed_forward_width + 4 * self.width) * 4
        mask = config.num_cells * num_tokens * (2 if has_flash else 4)
        scores = 0 if has_flash else config.num_cells * num_tokens * self.num_heads * 4
        logits = config.max_outputs * self.num_vocabulary * 4
        return activations + mask + scores + logits


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What a model takes on one device, in bytes; `free_bytes` is what is left beside it (negative:
    missing), None where nobody knows. Weights that are mapped from a file are counted as taken."""

    device: str
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    free_bytes: int | None

    @property
    def needed_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes

    def __str__(self) -> str:
        left = "" if self.free_bytes is None else f", {_size(self.free_bytes)} left"
        return (
            f"{self.device}: weights {_size(self.weights_bytes)}, KV cells {_size(self.kv_bytes)}, "
            f"compute {_size(self.compute_bytes)}{left}"
        )


def together(one: Sequence[DeviceMemory], other: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """What two models take that lie in memory at once, by device; what is left was seen by the later one."""
    added = {plan.device: plan for plan in one}
    for plan in other:
        first = added.get(plan.device)
        added[plan.device] = (
            plan
            if first is None
            else replace(
                plan,
                weights_bytes=first.weights_bytes + plan.weights_bytes,
                kv_bytes=first.kv_bytes + plan.kv_bytes,
                compute_bytes=first.compute_bytes + plan.compute_bytes,
            )
        )
    return tuple(added.values())


@dataclass(frozen=True, slots=True)
class Placement:
    """`num_layers` of each GPU in use; `output_gpu` has the output, None: the CPU. The rest of the
    layers is the CPU's."""

    num_layers: tuple[int, ...]
    output_gpu: int | None


def place_layers(num_layers: int, config: EngineConfig, gpus: Sequence[ComputeDevice]) -> Placement:
    """As llama.cpp does it: the output counts as one layer more, and the last ones go to the GPUs."""
    hardware = config.hardware
    used = hardware.gpus_in_use(gpus)
    if not used:
        return Placement((), None)
    wanted = hardware.gpu_layers
    num_wanted = num_layers + 1 if wanted is None or wanted == ALL_LAYERS else min(wanted, num_layers + 1)
    shares = [float(one.free_bytes) for one in used]
    if hardware.tensor_split:
        shares = [*hardware.tensor_split, *[0.0] * len(used)][: len(used)]
    if not sum(shares):
        shares = [1.0] * len(used)
    ends = [end / sum(shares) for end in accumulate(shares)]
    gpu_of = [min(bisect_right(ends, index / num_wanted), len(used) - 1) for index in range(num_wanted)]
    return Placement(tuple([gpu_of[:-1].count(gpu) for gpu in range(len(used))]), gpu_of[-1])


def plan_memory(
    shape: ModelShape,
    config: EngineConfig,
    gpus: Sequence[ComputeDevice],
    host_free_bytes: int | None,
    *,
    placement: Placement | None = None,
) -> tuple[DeviceMemory, ...]:
    """What a model takes on the CPU, then on each GPU in use.

    Without a `placement` it is not loaded yet. With one it is: the free bytes are those beside its
    weights, and layers lie where they were put when other memory was free.
    """
    hardware = config.hardware
    is_loaded = placement is not None
    placement = placement or place_layers(shape.num_layers, config, gpus)
    kv_layer_bytes = config.num_cells * shape.kv_bytes_per_cell_and_layer(
        hardware.key_type, hardware.value_type
    )
    # Embeddings and output are about as large as a layer or two; a layer is what remains.
    layer_bytes = shape.weights_bytes // (shape.num_layers + 1)
    compute_bytes = shape.compute_bytes(config)
    plans: list[DeviceMemory] = []
    for index, (gpu, num_layers) in enumerate(
        zip(hardware.gpus_in_use(gpus), placement.num_layers, strict=True)
    ):
        has_output = index == placement.output_gpu
        plan = DeviceMemory(
            device=gpu.name,
            weights_bytes=layer_bytes * (num_layers + has_output),
            kv_bytes=kv_layer_bytes * shape.kv_layers_of(num_layers),
            compute_bytes=compute_bytes if num_layers or has_output else 0,
            free_bytes=None,
        )
        if gpu.total_bytes:
            plan = _with_free(plan, gpu.free_bytes, is_loaded=is_loaded)
        plans.append(plan)
    weights_bytes = shape.weights_bytes - sum([plan.weights_bytes for plan in plans])
    kv_bytes = (
        kv_layer_bytes * shape.kv_layers_of(shape.num_layers - sum(placement.num_layers))
        + CELL_BOOK_BYTES * config.num_cells
    )
    host = DeviceMemory(HOST, weights_bytes, kv_bytes, compute_bytes, None)
    if host_free_bytes is not None:
        host = _with_free(host, host_free_bytes, is_loaded=is_loaded)
    return (host, *plans)


def _with_free(plan: DeviceMemory, free_bytes: int, *, is_loaded: bool) -> DeviceMemory:
    to_come_bytes = plan.needed_bytes - (plan.weights_bytes if is_loaded else 0)
    return replace(plan, free_bytes=free_bytes - to_come_bytes)


def check_it_fits(
    shape: ModelShape,
    config: EngineConfig,
    plans: Sequence[DeviceMemory],
    *,
    is_loaded: bool = False,
    is_alone: bool = True,
) -> None:
    """Raise ModelDoesNotFit for the first device that has too little. Weights that are mapped need not
    fit the CPU's memory: they are then read again and again, which is slow but works; not so where others
    are to go on beside it."""
    is_mapped = config.hardware.maps_weights and is_alone
    for plan in plans:
        if plan.free_bytes is None:
            continue
        is_host = plan.device == HOST
        optional_bytes = plan.weights_bytes if is_host and is_mapped and not is_loaded else 0
        if plan.free_bytes + optional_bytes >= 0:
            continue
        place = "" if is_host else f" on {plan.device}"
        fewer = "" if is_host else ", as do fewer layers there (SKIPPY_GPU_LAYERS, SKIPPY_TENSOR_SPLIT)"
        to_come_bytes = plan.needed_bytes - (plan.weights_bytes if is_loaded else 0)
        raise ModelDoesNotFit(
            f"{shape.name} does not fit{place}: {config.num_cells} KV cells need {_size(plan.kv_bytes)} and "
            f"compute buffers {_size(plan.compute_bytes)} beside {_size(plan.weights_bytes)} of weights, and "
            f"{_size(plan.free_bytes + to_come_bytes)} are free; a smaller context (SKIPPY_CONTEXT) or "
            f"smaller KV types (SKIPPY_KV_TYPE_K, SKIPPY_KV_TYPE_V) need less{fewer}."
        )


def check_they_fit(
    parts: Sequence[tuple[ModelShape, EngineConfig]],
    gpus: Sequence[ComputeDevice],
    host_free_bytes: int | None,
    *,
    extra_bytes: int,
) -> None:
    """Raise ModelDoesNotFit unless a model and those that help it, which are loaded one behind the other
    (`parts`, with their sizes), fit together beside others that go on, with `extra_bytes` more on the CPU."""
    for shape, config in parts:
        plans = plan_memory(shape, config, gpus, host_free_bytes)
        check_it_fits(shape, config, plans, is_alone=False)
        left = {plan.device: plan.free_bytes for plan in plans}
        host_free_bytes = left.pop(HOST)
        gpus = [
            gpu if (free_bytes := left.get(gpu.name)) is None else replace(gpu, free_bytes=free_bytes)
            for gpu in gpus
        ]
    if host_free_bytes is not None and extra_bytes > host_free_bytes:
        raise ModelDoesNotFit(
            f"{parts[0][0].name} does not fit: its adapters and projector and what the host cache may take "
            f"need {_size(extra_bytes)}, and {_size(host_free_bytes)} are free beside the rest of it; a "
            "smaller host cache (SKIPPY_HOST_CACHE_BYTES) needs less."
        )


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if abs(num_bytes) >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
