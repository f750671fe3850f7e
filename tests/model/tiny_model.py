"""A model whose weights cost nothing: another model's vocabulary and template, tiny random weights.

Most of what the model tests ask of llama.cpp (positions, cells, batches, tokens) does not depend on
what the model says. With this one a step takes a millisecond, so such tests can afford thousands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from gguf import PoolingType, TokenType

from tests.model.tiny_writer import CONTEXT, TinyModelWriter

NUM_HEADS = 4


def write_tiny_model(
    source: Path,
    target: Path,
    *,
    num_layers: int = 2,
    width: int = 64,
    context: int = CONTEXT,
    pretokenizer: str | None = None,
    user_defined: Collection[str] = (),
    extra_text: Mapping[str, str] | None = None,
    extra_ids: Mapping[str, int] | None = None,
    has_plane: bool = False,
    pooling: PoolingType | None = None,
) -> Path:
    """Write `target` (about 13 MB in F32) with the tokenizer of `source`; the weights are always the same.

    `pretokenizer` replaces `tokenizer.ggml.pre`, to reach the regular expressions that llama.cpp uses
    for other families of models; tokens in `user_defined` are marked as such; `extra_text` and
    `extra_ids` add metadata. With `has_plane` it is a Qwen2-VL, whose pictures have places in a plane. One
    with a `pooling` says that it was made to embed.
    """
    writer = TinyModelWriter(target, "qwen2vl" if has_plane else "llama")
    num_vocabulary = writer.copy_tokenizer(source, pretokenizer=pretokenizer, user_defined=user_defined)
    for name, text in (extra_text or {}).items():
        writer.add_string(name, text)
    for name, token_id in (extra_ids or {}).items():
        writer.add_uint32(name, token_id)

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
    writer = TinyModelWriter(target, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    # Longer pieces are merged first.
    writer.add_token_scores([0.0] * 259 + [float(len(piece)) for piece in pieces])
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    _write(writer, num_vocabulary=len(tokens), num_layers=2, width=64, context=CONTEXT)
    return target


def _write(
    writer: TinyModelWriter,
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

    writer.weights("token_embd.weight", num_vocabulary, width)
    writer.constant("output_norm.weight", width)
    for layer in range(num_layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.weights(f"blk.{layer}.{name}.weight", width, width)
            if has_plane and name != "attn_output":
                writer.weights(f"blk.{layer}.{name}.bias", width)
        writer.weights(f"blk.{layer}.ffn_gate.weight", feed_forward, width)
        writer.weights(f"blk.{layer}.ffn_up.weight", feed_forward, width)
        writer.weights(f"blk.{layer}.ffn_down.weight", width, feed_forward)
        writer.constant(f"blk.{layer}.attn_norm.weight", width)
        writer.constant(f"blk.{layer}.ffn_norm.weight", width)
    writer.save()
