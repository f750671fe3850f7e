"""A tiny vision projector with random weights, for the tiny text model: real code, no download.

LLaVA 1.5's "mlp" behind a vision transformer of two layers, of which llama.cpp computes one. What it
sees means nothing, but is the same for the same picture and differs between pictures. A picture of any
size becomes 16 tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFWriter

PATCH_SIZE, IMAGE_SIZE = 8, 32
NUM_TOKENS = (IMAGE_SIZE // PATCH_SIZE) ** 2
# The hidden width must differ from the width, or the loader thinks that up and down are swapped.
VISION_WIDTH, VISION_HIDDEN, NUM_HEADS, NUM_LAYERS = 32, 64, 2, 2


class TinyProjectorWriter(GGUFWriter):
    """With one random generator for all its weights."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "clip")
        self._random = np.random.default_rng(11)

    def weights(self, name: str, *shape: int, scale: float = 0.1) -> None:
        self.add_tensor(name, self._random.standard_normal(shape, np.float32) * np.float32(scale))

    def linear(self, name: str, inputs: int, outputs: int) -> None:
        self.weights(f"{name}.weight", outputs, inputs, scale=inputs**-0.5)

    def save(self) -> None:
        self.write_header_to_file()
        self.write_kv_data_to_file()
        self.write_tensors_to_file()
        self.close()


def write_tiny_projector(target: Path, *, text_width: int = 64) -> Path:
    """Write `target` for text models of that width."""
    model = TinyProjectorWriter(target)
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
