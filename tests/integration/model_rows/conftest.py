"""Rows of models for tests, with files that look like models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inference.domain.model_settings import ModelSettings
from inference.model_rows.services import model_create
from inference.models import ModelRow

GGUF_HEAD = b"GGUF\x03\x00\x00\x00" + b"\x00" * 16


@pytest.fixture
def gguf(tmp_path: Path) -> str:
    """The path of a file that begins as models do."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(GGUF_HEAD)
    return str(file)


@pytest.fixture
def settings_for(gguf: str) -> Callable[..., ModelSettings]:
    def made(id: str = "tiny", **members: object) -> ModelSettings:
        return ModelSettings(**{"row_id": 0, "revision": 0, "id": id, "source": gguf, **members})  # type: ignore[arg-type]

    return made


@pytest.fixture
def make(settings_for: Callable[..., ModelSettings]) -> Callable[..., ModelRow]:
    def made(id: str = "tiny", is_enabled: bool = True, **members: object) -> ModelRow:
        return model_create(settings=settings_for(id, **members), is_enabled=is_enabled)

    return made
