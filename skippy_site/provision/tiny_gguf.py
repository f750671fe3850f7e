"""Writes a llama model of 140 KB with random weights, to run real kernels on a build without a real model.

The matrices have the kinds that models come in (Q8_0, Q4_0, Q4_1, F16, BF16), so that decoding it goes
through the instruction sets and repacked layouts that a build was made with. What it says is noise.

Source: the GGUF file format, version 3 (ggml, docs/gguf.md), and ggml's block layouts (ggml-common.h).
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ALIGNMENT = 32
WIDTH = 64  # values in a row; a multiple of the quantization block (32) and of 64 for wide tiles
FEED_FORWARD = 128
NUM_BLOCKS = 2
NUM_HEADS = 2
CONTEXT = 512
NUM_TOKENS = 4 + 256  # <unk> <s> </s> and a space, then one token for each byte

# GGUF's metadata types
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# ggml's tensor types
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
# the tokenizer's token kinds
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor; `shape` as ggml has it, the row's length first."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: bytes


def write_tiny_gguf(path: Path) -> None:
    """Write the model to `path`. The bytes are the same each time."""
    tensors = list(_tensors())
    head = bytearray(b"GGUF")
    metadata = list(_metadata())
    head += struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for item in metadata:
        head += item
    offset = 0
    for tensor in tensors:
        head += _string(tensor.name) + struct.pack("<I", len(tensor.shape))
        head += struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)
        head += struct.pack("<IQ", tensor.kind, offset)
        offset += _padded(len(tensor.data))
    with path.open("wb") as file:
        file.write(head.ljust(_padded(len(head)), b"\0"))
        for tensor in tensors:
            file.write(tensor.data.ljust(_padded(len(tensor.data)), b"\0"))


def _tensors() -> Iterable[Tensor]:
    noise = random.Random(7)  # noqa: S311 (weights of a model that says nothing)

    def matrix(name: str, num_columns: int, num_rows: int, kind: int) -> Tensor:
        data = b"".join(BLOCK_OF[kind](noise) for _ in range(num_columns * num_rows // 32))
        return Tensor(name, (num_columns, num_rows), kind, data)

    def ones(name: str) -> Tensor:
        return Tensor(name, (WIDTH,), F32, struct.pack(f"<{WIDTH}f", *[1.0] * WIDTH))

    yield matrix("token_embd.weight", WIDTH, NUM_TOKENS, Q8_0)
    yield ones("output_norm.weight")
    yield matrix("output.weight", WIDTH, NUM_TOKENS, Q8_0)
    for block, (first, second) in enumerate(((Q8_0, F16), (Q4_0, BF16))):
        name = f"blk.{block}."
        yield ones(f"{name}attn_norm.weight")
        yield matrix(f"{name}attn_q.weight", WIDTH, WIDTH, first)
        yield matrix(f"{name}attn_k.weight", WIDTH, WIDTH, first)
        yield matrix(f"{name}attn_v.weight", WIDTH, WIDTH, Q4_1)
        yield matrix(f"{name}attn_output.weight", WIDTH, WIDTH, second)
        yield ones(f"{name}ffn_norm.weight")
        yield matrix(f"{name}ffn_gate.weight", WIDTH, FEED_FORWARD, first)
        yield matrix(f"{name}ffn_up.weight", WIDTH, FEED_FORWARD, second)
        yield matrix(f"{name}ffn_down.weight", FEED_FORWARD, WIDTH, first)


# One block of 32 weights each, small enough that nothing overflows.
BLOCK_OF: dict[int, Callable[[random.Random], bytes]] = {
    Q8_0: lambda noise: struct.pack("<e", 0.001) + noise.randbytes(32),
    Q4_0: lambda noise: struct.pack("<e", 0.01) + noise.randbytes(16),
    Q4_1: lambda noise: struct.pack("<ee", 0.01, -0.07) + noise.randbytes(16),
    F16: lambda noise: struct.pack("<32e", *(noise.uniform(-0.1, 0.1) for _ in range(32))),
    # The upper half of a float32 is a bfloat16.
    BF16: lambda noise: b"".join(struct.pack("<f", noise.uniform(-0.1, 0.1))[2:] for _ in range(32)),
}


def _metadata() -> Iterable[bytes]:
    yield _item("general.architecture", STRING, "llama")
    yield _item("general.name", STRING, "tiny")
    yield _item("llama.block_count", UINT32, NUM_BLOCKS)
    yield _item("llama.context_length", UINT32, CONTEXT)
    yield _item("llama.embedding_length", UINT32, WIDTH)
    yield _item("llama.feed_forward_length", UINT32, FEED_FORWARD)
    yield _item("llama.attention.head_count", UINT32, NUM_HEADS)
    yield _item("llama.attention.head_count_kv", UINT32, NUM_HEADS)
    yield _item("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5)
    yield _item("llama.rope.dimension_count", UINT32, WIDTH // NUM_HEADS)
    yield _item("llama.vocab_size", UINT32, NUM_TOKENS)
    tokens = ["<unk>", "<s>", "</s>", "\u2581", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [UNKNOWN, CONTROL, CONTROL, NORMAL, *[BYTE] * 256]
    yield _item("tokenizer.ggml.model", STRING, "llama")
    yield _array("tokenizer.ggml.tokens", STRING, tokens)
    yield _array("tokenizer.ggml.scores", FLOAT32, [0.0] * NUM_TOKENS)
    yield _array("tokenizer.ggml.token_type", INT32, kinds)
    yield _item("tokenizer.ggml.bos_token_id", UINT32, 1)
    yield _item("tokenizer.ggml.eos_token_id", UINT32, 2)
    yield _item("tokenizer.ggml.unknown_token_id", UINT32, 0)
    yield _item("tokenizer.ggml.add_space_prefix", BOOL, value=False)


def _item(key: str, kind: int, value: str | float) -> bytes:
    return _string(key) + struct.pack("<I", kind) + _value(kind, value)


def _array(key: str, kind: int, values: Sequence[str | float]) -> bytes:
    head = _string(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def _value(kind: int, value: str | float) -> bytes:
    if isinstance(value, str):
        return _string(value)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
