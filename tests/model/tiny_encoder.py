"""A tiny BERT with random weights and a vocabulary of its own, which embeds or, with a head for it, ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, PoolingType, TokenType

WIDTH, FEED_FORWARD, NUM_LAYERS, NUM_HEADS = 32, 64, 2, 4
CONTEXT = 128
WORDS = ["hello", "world", "rain", "sun", "sea", "stone", "and", "the"]


def write_tiny_encoder(target: Path, *, pooling: PoolingType = PoolingType.MEAN) -> Path:
    """Write `target`; words in pieces as WordPiece has them, [CLS] before and [SEP] behind each text."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [f"▁{word}" for word in WORDS]
    letters = [chr(code) for code in range(33, 127)]
    tokens += [f"▁{letter}" for letter in letters] + letters
    tokens = list(dict.fromkeys(tokens))
    kinds = [TokenType.CONTROL] * 5 + [TokenType.NORMAL] * (len(tokens) - 5)
    kinds[1] = TokenType.UNKNOWN
    writer = GGUFWriter(target, "bert")
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_type_count(2)
    writer.add_unk_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_sep_token_id(3)
    writer.add_mask_token_id(4)
    writer.add_block_count(NUM_LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(NUM_HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    writer.add_vocab_size(len(tokens))

    random = np.random.default_rng(7)

    def weights(*shape: int, scale: float = 0.3) -> np.ndarray:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("token_types.weight", weights(2, WIDTH))
    writer.add_tensor("position_embd.weight", weights(CONTEXT, WIDTH))
    names = ["token_embd_norm"]
    for layer in range(NUM_LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(WIDTH, WIDTH))
            writer.add_tensor(f"blk.{layer}.{name}.bias", weights(WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_up.weight", weights(FEED_FORWARD, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_up.bias", weights(FEED_FORWARD))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(WIDTH, FEED_FORWARD))
        writer.add_tensor(f"blk.{layer}.ffn_down.bias", weights(WIDTH))
        names += [f"blk.{layer}.attn_output_norm", f"blk.{layer}.layer_output_norm"]
    for name in names:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(WIDTH, np.float32))
    if pooling is PoolingType.RANK:
        writer.add_tensor("cls.weight", weights(WIDTH, WIDTH))
        writer.add_tensor("cls.bias", weights(WIDTH))
        writer.add_tensor("cls.output.weight", weights(1, WIDTH, scale=1.0))
        writer.add_tensor("cls.output.bias", weights(1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
