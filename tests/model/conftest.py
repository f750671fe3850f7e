"""Models that tests share: the real one, and a tiny one with its vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaProjector
from tests.model.tiny_media_model import write_tiny_plane_projector, write_tiny_projector
from tests.model.tiny_model import write_tiny_model
from tests.model_files import default_model_path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.model)


@pytest.fixture(scope="session")
def model_path() -> Path:
    return default_model_path()


@pytest.fixture(scope="session")
def tiny_model_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(model_path, tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def other_family_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with what other families have: text split by std::regex, roles as user-defined
    tokens, a second template, recommended sampling."""
    return write_tiny_model(
        model_path,
        tmp_path_factory.mktemp("models") / "other.gguf",
        pretokenizer="tekken",
        user_defined=["<|im_start|>", "<repo_name>"],
        extra_text={
            "tokenizer.chat_template.tool_use": "{{ tools }}" * 500,
            "general.sampling.temp": "0.6",
            "general.sampling.top_k": "20",
            "general.sampling.sequence": "top_k;temperature",
        },
    )


@pytest.fixture(scope="session")
def model(model_path: Path) -> Iterator[LlamaModel]:
    loaded = LlamaModel.load(model_path, EngineConfig())
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def tiny_model(tiny_model_path: Path) -> Iterator[LlamaModel]:
    loaded = LlamaModel.load(tiny_model_path, EngineConfig())
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def tiny_projector_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_projector(tmp_path_factory.mktemp("projectors") / "tiny-mmproj.gguf")


@pytest.fixture(scope="session")
def projector(tiny_model: LlamaModel, tiny_projector_path: Path) -> Iterator[LlamaProjector]:
    """Reads pictures for `tiny_model`."""
    loaded = LlamaProjector.load(tiny_projector_path, tiny_model, EngineConfig(num_threads=1))
    yield loaded
    loaded.close()


@pytest.fixture(scope="session")
def plane_eyes(
    model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[LlamaModel, LlamaProjector]]:
    """A model that is told where in a picture a row stands, and its projector."""
    folder, config = tmp_path_factory.mktemp("plane"), EngineConfig(num_threads=1)
    model = LlamaModel.load(write_tiny_model(model_path, folder / "qwen.gguf", has_plane=True), config)
    loaded = LlamaProjector.load(write_tiny_plane_projector(folder / "mmproj.gguf"), model, config)
    yield model, loaded
    loaded.close()
    model.close()
