"""One model as an administrator set it up: where it comes from, how it runs, who may use it.

Rows of a table in the end (inference/models/model_row.py); here without a database, for whoever loads and
serves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from inference.domain.adapters import AdapterSettings
from inference.domain.speculation import SpeculationSettings


class LoadPolicy(Enum):
    """When a model is in memory."""

    ALWAYS = "always"
    """From the start of the service on."""
    ON_DEMAND = "on_demand"
    """From the first request for it, which waits for that, until nobody has asked for a while."""
    BY_HAND = "by_hand"
    """Where somebody said so (`wants_loaded`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAccess:
    """Who may use a model, beside what keys allow: everybody, or these teams and keys."""

    is_open: bool = True
    team_ids: frozenset[int] = frozenset()
    key_ids: frozenset[int] = frozenset()

    def allows(self, *, team_id: int | None, key_id: int) -> bool:
        return self.is_open or key_id in self.key_ids or team_id in self.team_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What a row says. `revision` grows with every change of it.

    `source`, `projector_source`: a GGUF file's path or hf:org/repo/file.gguf. `engine` has the settings of
    the engine that differ from the service's own, by their names in docs/configuration.md in lower case
    without SKIPPY_ (`lanes`, `context`, `gpu_layers`, …), and `admission` those of who may start and wait
    (`queue`, `adaptive_concurrency`, …). `chat_defaults` and `completion_defaults` are
    bodies of such requests without what only a request can say; they were checked when the row was saved.
    `wants_loaded` is the last word of an operator: True, False (unload it, and do not load it on demand
    either), None (as `load_policy` says). `idle_unload_s`: 0 never unloads.
    """

    row_id: int
    revision: int
    id: str
    aliases: tuple[str, ...] = ()
    source: str
    projector_source: str = ""
    is_default: bool = False
    load_policy: LoadPolicy = LoadPolicy.ALWAYS
    wants_loaded: bool | None = None
    idle_unload_s: float = 0.0
    engine: Mapping[str, Any] = field(default_factory=dict)
    admission: Mapping[str, Any] = field(default_factory=dict)
    chat_defaults: Mapping[str, Any] = field(default_factory=dict)
    completion_defaults: Mapping[str, Any] = field(default_factory=dict)
    has_embeddings: bool = False
    adapters: tuple[AdapterSettings, ...] = ()
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)
    access: ModelAccess = field(default_factory=ModelAccess)


class ModelState(Enum):
    """Where a model is in its life in one process.

    UNLOADED → LOADING → READY → DRAINING → UNLOADED
                  └─────────┴──→ FAILED → LOADING (when its row changes, or somebody asks for it again)
    """

    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What one process says of a model. `cause` is for operators: it may name files and sizes."""

    row_id: int
    state: ModelState
    revision: int = 0
    cause: str = ""
    num_running: int = 0
    memory_bytes: int = 0


class ModelStore(Protocol):
    """The rows, as the process that serves them sees them. Raises ServiceUnavailable where the database is
    away; what was read before then goes on to hold."""

    async def settings(self) -> tuple[ModelSettings, ...]:
        """All models that are enabled, in the order in which they were added."""
        ...

    async def report(self, statuses: tuple[ModelStatus, ...]) -> None:
        """Say how it is with each of them in this process, and that it lives."""
        ...

    async def close(self) -> None:
        """The process ends: what it has reported does not hold any more."""
        ...
