"""A model that only embeds or ranks, where a runtime expects an engine that generates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.domain.backend import GenerationHandle, Newcomer
from inference.domain.errors import InvalidRequest, ServerOverloaded, SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription
from inference.domain.requests import GenerationRequest
from inference.domain.tokenizer import Tokenizer
from inference.engine.embedding_client import EmbeddingClient
from inference.engine.lanes import LaneStatistics
from inference.engine.stats import EngineStatistics

if TYPE_CHECKING:
    from inference.engine.llama import LlamaConstraintCompiler, LlamaModel

STOP_PATIENCE_S = 20.0


def no_generation() -> InvalidRequest:
    """The refusal of whatever would generate with such a model."""
    return InvalidRequest("This model computes embeddings or scores; it generates no text.", param="model")


class NoGeneration:
    """Implements GenerationBackend by refusing everything."""

    max_requests = 0

    def submit(self, request: GenerationRequest, *, deadline_ts: float | None = None) -> GenerationHandle:
        raise no_generation()

    def refuse_early(self, newcomer: Newcomer) -> None:
        raise no_generation()

    def reject_overdue(self, *, request_id: str, user_id: int, allowed_s: float) -> ServerOverloaded:
        raise no_generation()


class EmbeddingEngine:
    """Implements services.engines.Engine with a context for embeddings and nothing else."""

    projector: MediaProjector | None = None

    def __init__(
        self,
        description: ModelDescription,
        model: LlamaModel,
        *,
        constraints: LlamaConstraintCompiler,
        embeddings: EmbeddingClient,
    ) -> None:
        self.description = description
        self.tokenizer: Tokenizer = model.tokenizer
        self.constraints = constraints
        self.backend = NoGeneration()
        self.embeddings = embeddings
        self._model = model
        self._memory = model.used_memory()
        self.is_alive = True

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(
            is_alive=self.is_alive, lanes=LaneStatistics(num_lanes=0, num_used=0), memory=self._memory
        )

    def refuse(self, error: SkippyError) -> None:
        self.embeddings.refuse(error)

    def begin_stop(self) -> None:
        self.embeddings.begin_stop()

    def give_up(self) -> None:
        self.is_alive = False
        self.embeddings.begin_stop()

    async def stop(self) -> bool:
        self.is_alive = False
        is_freed = await self.embeddings.stop(STOP_PATIENCE_S)
        # One that hangs keeps its model: freeing it would end the process.
        if is_freed:
            self._model.close()
        self.constraints.close()
        return is_freed
