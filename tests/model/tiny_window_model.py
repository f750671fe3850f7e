"""A tiny model with random weights and a sliding window: half of its layers (Cohere 2's) see only so many
tokens back."""

from __future__ import annotations

from pathlib import Path

from tests.model.tiny_writer import CONTEXT, TinyModelWriter

WIDTH, FEED_FORWARD, NUM_HEADS, NUM_LAYERS = 64, 128, 4, 4
WINDOW = 48


def write_tiny_window_model(source: Path, target: Path) -> Path:
    """Write `target` with the tokenizer of `source`: every second layer sees WINDOW tokens."""
    model = TinyModelWriter(target, "cohere2")
    num_tokens = model.copy_tokenizer(source)
    model.add_vocab_size(num_tokens)
    model.add_block_count(NUM_LAYERS)
    model.add_context_length(CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_feed_forward_length(FEED_FORWARD)
    model.add_head_count(NUM_HEADS)
    model.add_head_count_kv(NUM_HEADS)
    model.add_layer_norm_eps(1e-5)
    model.add_rope_dimension_count(WIDTH // NUM_HEADS)
    model.add_sliding_window(WINDOW)
    model.add_sliding_window_pattern([True, False] * (NUM_LAYERS // 2))
    model.add_logit_scale(1.0)
    model.weights("token_embd.weight", num_tokens, WIDTH, scale=0.3)
    model.constant("output_norm.weight", WIDTH)
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        model.constant(f"{block}.attn_norm.weight", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            model.linear(f"{block}.{name}", WIDTH, WIDTH)
        model.linear(f"{block}.ffn_gate", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_up", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_down", FEED_FORWARD, WIDTH)
    model.save()
    return target
