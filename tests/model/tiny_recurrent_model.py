"""Tiny models with random weights that keep one state for a whole text: Mamba, which has no cells, and a
hybrid (Jamba), which has cells for half of its layers.

They forget slowly: what the first of a few hundred tokens was still moves the logits, or a test would not
see that a state was lost.
"""

from __future__ import annotations

from pathlib import Path

from tests.model.tiny_writer import CONTEXT, TinyModelWriter

WIDTH, FEED_FORWARD, NUM_HEADS = 64, 128, 4
INNER = 2 * WIDTH  # llama.cpp knows no other
STATE, TIME_STEP_RANK, KERNEL = 16, 4, 4
# exp(-DECAY · step) of a state is there a token later.
DECAY = 0.003


def write_tiny_recurrent_model(source: Path, target: Path) -> Path:
    """Write `target`, a Mamba of two layers with the tokenizer of `source`."""
    model = _begin(source, target, "mamba", num_layers=2)
    model.add_feed_forward_length(0)
    model.add_head_count(0)
    for layer in range(2):
        _add_state_layer(model, layer)
    model.save()
    return target


def write_tiny_hybrid_model(source: Path, target: Path) -> Path:
    """Write `target`, a Jamba with the tokenizer of `source`: a layer with a state, one with cells, and
    the same again."""
    num_layers = 4
    model = _begin(source, target, "jamba", num_layers=num_layers)
    model.add_feed_forward_length(FEED_FORWARD)
    model.add_head_count(NUM_HEADS)
    model.add_head_count_kv([0, NUM_HEADS] * (num_layers // 2))
    for layer in range(num_layers):
        block = f"blk.{layer}"
        if layer % 2:
            model.constant(f"{block}.attn_norm.weight", WIDTH)
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                model.linear(f"{block}.{name}", WIDTH, WIDTH)
        else:
            _add_state_layer(model, layer)
            model.constant(f"{block}.ssm_dt_norm.weight", TIME_STEP_RANK)
            model.constant(f"{block}.ssm_b_norm.weight", STATE)
            model.constant(f"{block}.ssm_c_norm.weight", STATE)
        model.constant(f"{block}.ffn_norm.weight", WIDTH)
        model.linear(f"{block}.ffn_gate", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_up", WIDTH, FEED_FORWARD)
        model.linear(f"{block}.ffn_down", FEED_FORWARD, WIDTH)
    model.save()
    return target


def _begin(source: Path, target: Path, architecture: str, *, num_layers: int) -> TinyModelWriter:
    model = TinyModelWriter(target, architecture)
    num_tokens = model.copy_tokenizer(source)
    model.add_vocab_size(num_tokens)
    model.add_block_count(num_layers)
    model.add_context_length(CONTEXT)
    model.add_embedding_length(WIDTH)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_ssm_conv_kernel(KERNEL)
    model.add_ssm_inner_size(INNER)
    model.add_ssm_state_size(STATE)
    model.add_ssm_time_step_rank(TIME_STEP_RANK)
    model.weights("token_embd.weight", num_tokens, WIDTH, scale=0.3)
    model.constant("output_norm.weight", WIDTH)
    return model


def _add_state_layer(model: TinyModelWriter, layer: int) -> None:
    block = f"blk.{layer}"
    model.constant(f"{block}.attn_norm.weight", WIDTH)
    model.linear(f"{block}.ssm_in", WIDTH, 2 * INNER)
    model.weights(f"{block}.ssm_conv1d.weight", INNER, KERNEL, scale=0.5)
    model.weights(f"{block}.ssm_conv1d.bias", INNER)
    model.linear(f"{block}.ssm_x", INNER, TIME_STEP_RANK + 2 * STATE)
    model.linear(f"{block}.ssm_dt", TIME_STEP_RANK, INNER)
    model.weights(f"{block}.ssm_dt.bias", INNER)
    model.constant(f"{block}.ssm_a", INNER, STATE, value=-DECAY)
    model.constant(f"{block}.ssm_d", INNER, value=0.5)
    model.linear(f"{block}.ssm_out", INNER, WIDTH)
