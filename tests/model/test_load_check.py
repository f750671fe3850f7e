"""Memory checked beside other models: all that belongs to a model is counted, before any of it is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inference.engine.config import EngineConfig
from inference.engine.llama.load_check import check_beside_others
from inference.engine.load_error import ModelDoesNotFit, ModelLoadError
from inference.engine.load_order import ModelFiles
from tests.model.tiny_encoder import write_tiny_encoder

CONFIG = EngineConfig(num_lanes=2, num_cells=512, num_threads=1)
MORE_THAN_THERE_IS = 1 << 42


def large_file(path: Path) -> Path:
    """Of a size that no memory has; most of it is a hole."""
    with path.open("wb") as file:
        file.truncate(MORE_THAN_THERE_IS)
    return path


def test_a_model_with_its_company_fits(tiny_model_path: Path) -> None:
    files = ModelFiles(
        model=tiny_model_path,
        draft=tiny_model_path,
        projector=tiny_model_path,
        adapters={"one": tiny_model_path},
    )
    check_beside_others(files, replace(CONFIG, host_cache_bytes=1_000_000), 0)
    with pytest.raises(ModelDoesNotFit):
        check_beside_others(files, CONFIG, MORE_THAN_THERE_IS)


def test_what_the_host_cache_may_take_is_counted_where_there_is_one(tiny_model_path: Path) -> None:
    files = ModelFiles(model=tiny_model_path)
    config = replace(CONFIG, host_cache_bytes=MORE_THAN_THERE_IS)
    with pytest.raises(ModelDoesNotFit, match="SKIPPY_HOST_CACHE_BYTES"):
        check_beside_others(files, config, 0)
    check_beside_others(files, replace(config, has_prefix_cache=False), 0)


def test_adapters_and_projectors_are_counted(tiny_model_path: Path, tmp_path: Path) -> None:
    large = large_file(tmp_path / "large.gguf")
    for files in (
        ModelFiles(model=tiny_model_path, projector=large),
        ModelFiles(model=tiny_model_path, adapters={"one": tiny_model_path, "two": large}),
    ):
        with pytest.raises(ModelDoesNotFit, match="adapters and projector"):
            check_beside_others(files, CONFIG, 0)


def test_a_draft_model_that_is_none_is_told_by_its_name(tiny_model_path: Path, tmp_path: Path) -> None:
    draft = tmp_path / "draft.gguf"
    draft.write_bytes(b"no model")
    with pytest.raises(ModelLoadError, match=r"draft\.gguf"):
        check_beside_others(ModelFiles(model=tiny_model_path, draft=draft), CONFIG, 0)


def test_a_model_that_only_embeds_needs_nothing_beside_it(tmp_path: Path) -> None:
    files = ModelFiles(
        model=write_tiny_encoder(tmp_path / "encoder.gguf"),
        projector=large_file(tmp_path / "large.gguf"),
        draft=tmp_path / "none.gguf",
    )
    check_beside_others(files, replace(CONFIG, host_cache_bytes=MORE_THAN_THERE_IS), 0)
