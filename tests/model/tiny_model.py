"""A model whose weights cost nothing: another model's vocabulary and template, tiny random weights.

Most of what the model tests ask of llama.cpp (positions, cells, batches, tokens) does not depend on
what the model says. With this one a step takes a millisecond, so such tests can afford thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, PoolingType, TokenType

# Fields that describe the source's own layers; the tiny model writes its own.
SKIPPED_FIELDS = (
    "GGUF.",
    "llama.",
    "general.architecture",
    "general.quantization_version",
    "general.file_type",
)
NUM_HEADS = 4


def write_tiny_model(
    source: Path,
    target: Path,
    *,
    num_layers: int = 2,
    width: int = 64,
    context: int = 8192,
    pretokenizer: str | None = None,
    user_defined: Collection[str] = (),
    extra_text: Mapping[str, str] | None = None,
    has_plane: bool = False,
    pooling: PoolingType | None = None,
) -> Path:
    """Write `target` (about 13 MB in F32) with the tokenizer of `source`; the weights are always the same.

    `pretokenizer` replaces `tokenizer.ggml.pre`, to reach the regular expressions that llama.cpp uses
    for other families of models; tokens in `user_defined` are marked as such; `extra_text` adds
    metadata. With `has_plane` it is a Qwen2-VL, whose pictures have places in a plane. One with a `pooling`
    says that it was made to embed.
    """
    reader = GGUFReader(source)
    writer = GGUFWriter(target, "qwen2vl" if has_plane else "llama")
    num_vocabulary = 0
    defined_ids: list[int] = []
    for name, field in reader.fields.items():
        if name.startswith(SKIPPED_FIELDS):
            continue
        value = field.contents()
        if name == "tokenizer.ggml.tokens":
            num_vocabulary = len(value)
            defined_ids = [value.index(text) for text in user_defined]
        if name == "tokenizer.ggml.pre" and pretokenizer is not None:
            value = pretokenizer
        if name == "tokenizer.ggml.token_type":
            defined = set(defined_ids)
            value = [
                int(TokenType.USER_DEFINED) if index in defined else one for index, one in enumerate(value)
            ]
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kind, sub_type=element)

    for name, text in (extra_text or {}).items():
        writer.add_string(name, text)

    _write(
        writer,
        num_vocabulary=num_vocabulary,
        num_layers=num_layers,
        width=width,
        context=context,
        has_plane=has_plane,
        pooling=pooling,
    )
    return target


def write_spm_model(target: Path) -> Path:
    """A tiny model with a SentencePiece vocabulary of its own: bytes, letters, and some words, most of which
    begin with a space, as does every text."""
    words = ["▁yes", "▁no", "▁may", "be", "▁the", "▁{", '{"', '":', '",', "▁true", "name", "ame", "am", "12"]
    letters = ["▁", *(chr(code) for code in range(33, 127)), "é"]
    pieces = list(dict.fromkeys([*words, *letters]))
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds += [TokenType.BYTE] * 256 + [TokenType.NORMAL] * len(pieces)
    writer = GGUFWriter(target, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    # Longer pieces are merged first.
    writer.add_token_scores([0.0] * 259 + [float(len(piece)) for piece in pieces])
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    _write(writer, num_vocabulary=len(tokens), num_layers=2, width=64, context=8192)
    return target


def _write(
    writer: GGUFWriter,
    *,
    num_vocabulary: int,
    num_layers: int,
    width: int,
    context: int,
    has_plane: bool = False,
    pooling: PoolingType | None = None,
) -> None:
    """Sizes and weights, and the end of the file."""
    feed_forward = width * 2
    writer.add_block_count(num_layers)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // NUM_HEADS)
    if has_plane:
        pairs = width // NUM_HEADS // 2
        writer.add_rope_dimension_sections([pairs - 2 * (pairs // 3), pairs // 3, pairs // 3, 0])
    writer.add_vocab_size(num_vocabulary)
    if pooling is not None:
        writer.add_pooling_type(pooling)

    random = np.random.default_rng(7)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    writer.add_tensor("token_embd.weight", weights(num_vocabulary, width))
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(num_layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(width, width))
            if has_plane and name != "attn_output":
                writer.add_tensor(f"blk.{layer}.{name}.bias", weights(width))
        writer.add_tensor(f"blk.{layer}.ffn_gate.weight", weights(feed_forward, width))
        writer.add_tensor(f"blk.{layer}.ffn_up.weight", weights(feed_forward, width))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(width, feed_forward))
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", np.ones(width, np.float32))
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
