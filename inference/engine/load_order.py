"""What a loader is asked to load: a model's settings, with its files on this machine and its sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inference.domain.model_settings import ModelSettings
from inference.engine.config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files that a model's sources stand for, all of them here and readable. `adapters` are by name."""

    model: Path
    projector: Path | None = None
    draft: Path | None = None
    adapters: Mapping[str, Path] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Path, ...]:
        optional = (self.projector, self.draft)
        return (self.model, *[one for one in optional if one is not None], *self.adapters.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOrder:
    """One load. What a model is set to be (`settings`) stays what it was when the load began.

    `others_bytes`: what the other models of this process have mapped, and what their host caches may still
    take. The system calls that memory available; but mapped weights would have to be read again for each of
    their steps. None where there are no others: then a model may be larger than the memory, and is slow.
    """

    settings: ModelSettings
    files: ModelFiles
    config: EngineConfig
    others_bytes: int | None = None
