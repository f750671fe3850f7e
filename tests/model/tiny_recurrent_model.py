"""A tiny Mamba with random weights: a model that keeps one state for a whole text, and no cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from tests.model.tiny_model import SKIPPED_FIELDS

WIDTH = 64
INNER = 2 * WIDTH  # llama.cpp knows no other Mamba
STATE, TIME_STEP_RANK, KERNEL = 16, 4, 4


def write_tiny_recurrent_model(source: Path, target: Path) -> Path:
    """Write `target` with the tokenizer of `source`."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, "mamba")
    num_vocabulary = 0
    for name, field in reader.fields.items():
        if name.startswith(SKIPPED_FIELDS):
            continue
        value = field.contents()
        if name == "tokenizer.ggml.tokens":
            num_vocabulary = len(value)
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, value, kind, sub_type=element)
    writer.add_block_count(1)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_inner_size(INNER)
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(TIME_STEP_RANK)
    writer.add_vocab_size(num_vocabulary)

    random = np.random.default_rng(7)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    writer.add_tensor("token_embd.weight", weights(num_vocabulary, WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("blk.0.attn_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("blk.0.ssm_in.weight", weights(2 * INNER, WIDTH))
    writer.add_tensor("blk.0.ssm_conv1d.weight", weights(INNER, KERNEL))
    writer.add_tensor("blk.0.ssm_conv1d.bias", weights(INNER))
    writer.add_tensor("blk.0.ssm_x.weight", weights(TIME_STEP_RANK + 2 * STATE, INNER))
    writer.add_tensor("blk.0.ssm_dt.weight", weights(INNER, TIME_STEP_RANK))
    writer.add_tensor("blk.0.ssm_dt.bias", weights(INNER))
    writer.add_tensor("blk.0.ssm_a", -np.ones((INNER, STATE), np.float32))
    writer.add_tensor("blk.0.ssm_d", np.ones(INNER, np.float32))
    writer.add_tensor("blk.0.ssm_out.weight", weights(WIDTH, INNER))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
