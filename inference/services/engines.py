"""What hosting a model needs of an engine, and of whoever loads one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inference.admission.controller import AdmissionController
from inference.domain.backend import GenerationBackend
from inference.domain.constraint import ConstraintCompiler
from inference.domain.embeddings import EmbeddingBackend
from inference.domain.errors import SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.engine.load_order import LoadOrder
from inference.engine.stats import EngineStatistics


class Engine(Protocol):
    """A loaded model with its engine thread, ready to take requests."""

    @property
    def description(self) -> ModelDescription: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def backend(self) -> GenerationBackend: ...

    @property
    def constraints(self) -> ConstraintCompiler: ...

    @property
    def projector(self) -> MediaProjector | None: ...

    @property
    def embeddings(self) -> EmbeddingBackend | None:
        """None where the model is not to embed anything."""
        ...

    @property
    def is_alive(self) -> bool: ...

    def statistics(self) -> EngineStatistics: ...

    def refuse(self, error: SkippyError) -> None:
        """Take no newcomers from now on; what waits fails with `error` at once, what runs goes on."""
        ...

    def begin_stop(self) -> None:
        """Ask the engine thread to end at the next step boundary; returns at once. Whoever still
        generates is told ServiceUnavailable."""
        ...

    def give_up(self) -> None:
        """Its thread hangs: count it as dead and tell everybody who waits for it, at once."""
        ...

    async def stop(self) -> bool:
        """As `begin_stop`, and wait until the thread has ended and the model is freed. False where the
        thread hangs: then what it holds is held until the process ends."""
        ...


class EngineLoader(Protocol):
    """Loads a model and starts its engine; never blocks the event loop."""

    async def load(self, order: LoadOrder, admit: Callable[[int], AdmissionController]) -> Engine:
        """`admit` makes the admission for a pool of that many KV cells. Raises ModelLoadError where the
        model cannot be used; nothing of it is held then."""
        ...
