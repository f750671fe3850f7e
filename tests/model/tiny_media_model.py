"""Tiny projectors with random weights, for the tiny text model: real code, no download.

LLaVA 1.5's "mlp" behind a vision transformer of two layers, of which llama.cpp computes one. What it
sees means nothing, but is the same for the same picture and differs between pictures. A picture of any
size becomes 16 tokens.

Ultravox's projector behind one layer of Whisper's encoder: every 30 s of sound, begun or full, become
75 tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

PATCH_SIZE, IMAGE_SIZE = 8, 32
NUM_TOKENS = (IMAGE_SIZE // PATCH_SIZE) ** 2
# The hidden width must differ from the width, or the loader thinks that up and down are swapped.
VISION_WIDTH, VISION_HIDDEN, NUM_HEADS, NUM_LAYERS = 32, 64, 2, 2
SOUND_RATE, NUM_FRAMES, STACK_FACTOR, NUM_MEL_BINS = 16_000, 3000, 20, 8
NUM_SOUND_TOKENS = NUM_FRAMES // STACK_FACTOR // 2
SOUND_WIDTH, SOUND_HIDDEN = 16, 32


class TinyProjectorWriter(GGUFWriter):
    """With one random generator for all its weights."""

    def __init__(self, path: Path, without: Collection[str] = ()) -> None:
        super().__init__(path, "clip")
        self._without = without
        self.random = np.random.default_rng(11)

    def weights(self, name: str, *shape: int, scale: float = 0.1) -> None:
        if name not in self._without:
            self.add_tensor(name, self.random.standard_normal(shape, np.float32) * np.float32(scale))

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.weights(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)

    def save(self) -> None:
        self.write_header_to_file()
        self.write_kv_data_to_file()
        self.write_tensors_to_file()
        self.close()


def write_tiny_projector(target: Path, *, text_width: int = 64, without: Collection[str] = ()) -> Path:
    """Write `target` for text models of that width, `without` some tensors."""
    model = TinyProjectorWriter(target, without)
    model.add_bool("clip.has_vision_encoder", True)
    model.add_string("clip.projector_type", "mlp")
    model.add_uint32("clip.vision.image_size", IMAGE_SIZE)
    model.add_uint32("clip.vision.patch_size", PATCH_SIZE)
    model.add_uint32("clip.vision.embedding_length", VISION_WIDTH)
    model.add_uint32("clip.vision.feed_forward_length", VISION_HIDDEN)
    model.add_uint32("clip.vision.block_count", NUM_LAYERS)
    model.add_uint32("clip.vision.projection_dim", text_width)
    model.add_uint32("clip.vision.attention.head_count", NUM_HEADS)
    model.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    model.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    model.add_array("clip.vision.image_std", [0.25, 0.25, 0.25])
    model.weights("v.patch_embd.weight", VISION_WIDTH, 3, PATCH_SIZE, PATCH_SIZE)
    model.weights("v.position_embd.weight", NUM_TOKENS, VISION_WIDTH)
    for block in range(NUM_LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            model.linear(f"v.blk.{block}.{name}", VISION_WIDTH, VISION_WIDTH)
        model.linear(f"v.blk.{block}.ffn_up", VISION_WIDTH, VISION_HIDDEN)
        model.linear(f"v.blk.{block}.ffn_down", VISION_HIDDEN, VISION_WIDTH)
    for name, inputs in (("mm.0", VISION_WIDTH), ("mm.2", text_width)):
        model.linear(name, inputs, text_width)
        model.weights(f"{name}.bias", text_width)
    model.save()
    return target


def write_tiny_sound_projector(
    target: Path, *, text_width: int = 64, stack_factor: int = STACK_FACTOR
) -> Path:
    """Write `target` for text models of that width. `stack_factor`, frames that become one token, must
    divide 1500, or libmtmd counts wrongly."""
    model = TinyProjectorWriter(target)
    model.add_bool("clip.has_audio_encoder", True)
    model.add_string("clip.projector_type", "ultravox")
    model.add_uint32("clip.audio.embedding_length", SOUND_WIDTH)
    model.add_uint32("clip.audio.feed_forward_length", SOUND_HIDDEN)
    model.add_uint32("clip.audio.block_count", 1)
    model.add_uint32("clip.audio.projection_dim", text_width)
    model.add_uint32("clip.audio.attention.head_count", NUM_HEADS)
    model.add_float32("clip.audio.attention.layer_norm_epsilon", 1e-5)
    model.add_uint32("clip.audio.num_mel_bins", NUM_MEL_BINS)
    model.add_uint32("clip.audio.projector.stack_factor", stack_factor)
    for index, inputs in ((1, NUM_MEL_BINS), (2, SOUND_WIDTH)):
        # Convolutions are computed in half precision.
        kernel = model.random.standard_normal((SOUND_WIDTH, inputs, 3)) * 0.2
        model.add_tensor(f"a.conv1d.{index}.weight", kernel.astype(np.float16))
        model.weights(f"a.conv1d.{index}.bias", SOUND_WIDTH, 1)
    model.weights("a.position_embd.weight", NUM_FRAMES // 2, SOUND_WIDTH)
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        model.linear(f"a.blk.0.{name}", SOUND_WIDTH, SOUND_WIDTH)
        if name != "attn_k":  # Whisper's keys have no bias
            model.weights(f"a.blk.0.{name}.bias", SOUND_WIDTH)
    for name in ("a.blk.0.ln1", "a.blk.0.ln2", "a.post_ln"):
        model.add_tensor(f"{name}.weight", np.ones(SOUND_WIDTH, np.float32))
        model.weights(f"{name}.bias", SOUND_WIDTH)
    for name, inputs, outputs in (("up", SOUND_WIDTH, SOUND_HIDDEN), ("down", SOUND_HIDDEN, SOUND_WIDTH)):
        model.linear(f"a.blk.0.ffn_{name}", inputs, outputs)
        model.weights(f"a.blk.0.ffn_{name}.bias", outputs)
    stacked = SOUND_WIDTH * stack_factor
    model.add_tensor("mm.a.norm_pre.weight", np.ones(stacked, np.float32))
    model.linear("mm.a.mlp.1", stacked, SOUND_HIDDEN)
    model.add_tensor("mm.a.norm_mid.weight", np.ones(SOUND_HIDDEN // 2, np.float32))
    model.linear("mm.a.mlp.2", SOUND_HIDDEN // 2, text_width)
    model.save()
    return target


def write_tiny_plane_projector(target: Path, *, text_width: int = 64) -> Path:
    """Qwen2-VL's, for `write_tiny_model(has_plane=True)`: a picture of w × h pixels becomes about
    w / 16 × h / 16 tokens, 8 at least."""
    model = TinyProjectorWriter(target)
    model.add_bool("clip.has_vision_encoder", True)
    model.add_string("clip.projector_type", "qwen2vl_merger")
    model.add_uint32("clip.vision.image_size", IMAGE_SIZE)
    model.add_uint32("clip.vision.patch_size", PATCH_SIZE)
    model.add_uint32("clip.vision.embedding_length", VISION_WIDTH)
    model.add_uint32("clip.vision.feed_forward_length", VISION_HIDDEN)
    model.add_uint32("clip.vision.block_count", 1)
    model.add_uint32("clip.vision.projection_dim", text_width)
    model.add_uint32("clip.vision.attention.head_count", NUM_HEADS)
    model.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    model.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    model.add_array("clip.vision.image_std", [0.25, 0.25, 0.25])
    for name in ("v.patch_embd.weight", "v.patch_embd.weight.1"):
        model.weights(name, VISION_WIDTH, 3, PATCH_SIZE, PATCH_SIZE)
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        model.linear(f"v.blk.0.{name}", VISION_WIDTH, VISION_WIDTH)
        model.weights(f"v.blk.0.{name}.bias", VISION_WIDTH)
    for name in ("v.blk.0.ln1", "v.blk.0.ln2", "v.post_ln"):
        model.add_tensor(f"{name}.weight", np.ones(VISION_WIDTH, np.float32))
        model.weights(f"{name}.bias", VISION_WIDTH)
    for name, inputs, outputs in (("up", VISION_WIDTH, VISION_HIDDEN), ("down", VISION_HIDDEN, VISION_WIDTH)):
        model.linear(f"v.blk.0.ffn_{name}", inputs, outputs)
        model.weights(f"v.blk.0.ffn_{name}.bias", outputs)
    merged = 4 * VISION_WIDTH
    for name, outputs in (("mm.0", merged), ("mm.2", text_width)):
        model.linear(name, merged, outputs)
        model.weights(f"{name}.bias", outputs)
    model.save()
    return target
