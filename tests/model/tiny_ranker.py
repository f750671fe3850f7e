"""A tiny Qwen3 with random weights and a head that ranks: causal, where tiny_encoder.py sees both ways."""

from __future__ import annotations

from pathlib import Path

from gguf import PoolingType

from tests.model.tiny_writer import CONTEXT, TinyModelWriter

WIDTH, FEED_FORWARD, NUM_LAYERS, NUM_HEADS = 64, 128, 2, 4
HEAD = WIDTH // NUM_HEADS
# As the converter writes them: the score is what "yes" has beside "no".
LABELS = ("yes", "no")


def write_tiny_causal_ranker(source: Path, target: Path) -> Path:
    """Write `target` with the tokenizer of `source`."""
    model = TinyModelWriter(target, "qwen3")
    num_tokens = model.copy_tokenizer(source)
    model.add_vocab_size(num_tokens)
    model.add_block_count(NUM_LAYERS)
    model.add_context_length(CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_feed_forward_length(FEED_FORWARD)
    model.add_head_count(NUM_HEADS)
    model.add_head_count_kv(NUM_HEADS)
    model.add_key_length(HEAD)
    model.add_value_length(HEAD)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_pooling_type(PoolingType.RANK)
    model.add_classifier_output_labels(list(LABELS))
    model.weights("token_embd.weight", num_tokens, WIDTH, scale=0.3)
    model.constant("output_norm.weight", WIDTH)
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            model.constant(f"{block}.{norm}.weight", WIDTH)
        for norm in ("attn_q_norm", "attn_k_norm"):
            model.constant(f"{block}.{norm}.weight", HEAD)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            model.linear(f"{block}.{name}", WIDTH, WIDTH)
        model.linear(f"{block}.ffn_gate", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_up", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_down", FEED_FORWARD, WIDTH)
    model.linear("cls.output", WIDTH, len(LABELS))
    model.save()
    return target
