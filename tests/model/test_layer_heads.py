"""What a model's cells take is known before it is loaded, also where only some of its layers have any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inference.engine.config import EngineConfig
from inference.engine.hardware import KvType
from inference.engine.llama import LlamaModel
from inference.engine.llama.context import LlamaContext
from inference.engine.llama.layer_heads import AttendingLayers, attending_layers, read_integers
from inference.engine.llama.load_check import probe_shape
from tests.model.tiny_recurrent_model import write_tiny_hybrid_model, write_tiny_recurrent_model

CONFIG = EngineConfig(num_lanes=2, num_cells=512, num_threads=1, max_ubatch_tokens=64)
Writer = Callable[[Path, Path], Path]


def kv_bytes(model: LlamaModel, num_cells: int) -> int:
    context = LlamaContext(model, replace(CONFIG, num_cells=num_cells))
    (host,) = context.memory
    context.close()
    return host.kv_bytes


@pytest.mark.parametrize(
    ("write", "num_kv_layers"), [(write_tiny_hybrid_model, 2), (write_tiny_recurrent_model, 0)]
)
def test_more_cells_take_what_is_planned(
    model_path: Path, tmp_path: Path, write: Writer, num_kv_layers: int
) -> None:
    path = write(model_path, tmp_path / "tiny.gguf")
    shape = probe_shape(path)
    assert shape.num_kv_layers == num_kv_layers
    model = LlamaModel.load(path, CONFIG)
    try:
        grown = kv_bytes(model, 2048) - kv_bytes(model, 512)
    finally:
        model.close()
    # llama.cpp tells hundredths of a MiB, and books are planned beside what it tells.
    assert grown == pytest.approx(1536 * shape.kv_bytes_per_cell(KvType.F16, KvType.F16), abs=22_000)


def test_lists_of_integers_are_read_and_nothing_else(model_path: Path, tmp_path: Path) -> None:
    path = write_tiny_hybrid_model(model_path, tmp_path / "tiny.gguf")
    assert read_integers(path, "jamba.attention.head_count_kv") == (0, 4, 0, 4)
    for key in ("jamba.attention.head_count", "tokenizer.ggml.tokens", "nothing"):
        assert read_integers(path, key) is None
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(path.read_bytes()[:200])
    assert read_integers(broken, "jamba.attention.head_count_kv") is None
    assert read_integers(tmp_path / "gone.gguf", "x") is None


@pytest.mark.parametrize(
    ("heads_of_layers", "interval", "found"),
    [
        ((0, 8, 0, 2), 0, AttendingLayers(2, 8)),
        ((0, 0, 0, 0), 0, AttendingLayers(0, 0)),
        # Layers that are only there for drafts may follow.
        ((0, 8, 0, 0, 8), 0, AttendingLayers(1, 8)),
        (None, 4, AttendingLayers(1, 3)),
        (None, 3, AttendingLayers(1, 3)),
        (None, 0, AttendingLayers(4, 3)),
    ],
)
def test_what_nobody_says_is_taken_for_the_most(heads_of_layers, interval, found) -> None:
    assert found == attending_layers(
        num_layers=4, num_kv_heads=3, heads_of_layers=heads_of_layers, interval=interval
    )
