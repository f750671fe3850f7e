"""Loads a GGUF file and runs it in this process: model, engine thread and client as one thing.

The only file of the engine that knows both its loop and llama.cpp's layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription, id_from_file_name
from inference.domain.tokenizer import Tokenizer
from inference.engine.client import Admission, EngineClient
from inference.engine.config import EngineConfig
from inference.engine.embedding_client import EmbeddingClient
from inference.engine.embedding_engine import STOP_PATIENCE_S, EmbeddingEngine
from inference.engine.stats import EngineStatistics
from inference.engine.thread import EngineThread

if TYPE_CHECKING:
    from inference.engine.llama import LlamaConstraintCompiler, LlamaModel


class LocalEngine:
    """A loaded model and its running engine. Made by LocalEngineLoader."""

    def __init__(
        self,
        description: ModelDescription,
        tokenizer: Tokenizer,
        *,
        constraints: LlamaConstraintCompiler,
        thread: EngineThread,
        client: EngineClient,
        projector: MediaProjector | None = None,
        embeddings: EmbeddingClient | None = None,
    ) -> None:
        self.description = description
        self.tokenizer = tokenizer
        self.constraints = constraints
        self.backend = client
        self.projector = projector
        self.embeddings = embeddings
        self._thread = thread

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive

    def statistics(self) -> EngineStatistics:
        return self._thread.statistics

    def refuse(self, error: SkippyError) -> None:
        self.backend.refuse(error)
        if self.embeddings is not None:
            self.embeddings.refuse(error)

    def begin_stop(self) -> None:
        if self.embeddings is not None:
            self.embeddings.begin_stop()
        self._thread.begin_stop()

    def give_up(self) -> None:
        if self.embeddings is not None:
            self.embeddings.begin_stop()
        self._thread.give_up()

    async def stop(self) -> None:
        if self.embeddings is not None:
            # Before the model, which its context is of.
            await self.embeddings.stop(STOP_PATIENCE_S)
        await self.backend.stop(STOP_PATIENCE_S)
        self.constraints.close()


class LocalEngineLoader:
    """Loads `model_path` on a thread of its own, and `projector_path` where the model is to read pictures
    or sounds. `model_id` is made from the file's name if empty. `has_embeddings`: a model that generates
    embeds texts as well."""

    def __init__(
        self,
        model_path: Path,
        *,
        model_id: str,
        config: EngineConfig,
        clock: Clock,
        projector_path: Path | None = None,
        has_embeddings: bool = True,
    ) -> None:
        self._model_path = model_path
        self._model_id = model_id or id_from_file_name(model_path)
        self._config = config
        self._clock = clock
        self._projector_path = projector_path
        self._has_embeddings = has_embeddings
        self._threads: WeakSet[EngineThread] = WeakSet()

    async def load(self, admit: Callable[[int], Admission]) -> LocalEngine | EmbeddingEngine:
        """Raises ModelLoadError where the file cannot be used, RuntimeError where the context
        cannot be made."""
        # Here and not above: the site is put together in processes that never load a model.
        from inference.engine.llama import LlamaConstraintCompiler, LlamaModel, LlamaRunner

        model = await asyncio.to_thread(LlamaModel.load, self._model_path, self._config)
        constraints = await asyncio.to_thread(LlamaConstraintCompiler, model.tokenizer)
        projector: MediaProjector | None = None
        if self._projector_path is not None:
            try:
                projector = await asyncio.to_thread(self._load_projector, model)
            except BaseException:
                model.close()
                raise
        description = model.description(self._model_id)
        embeddings = self._embeddings(model)
        if embeddings is not None:
            description = replace(description, embedding=embeddings.description)
            if not description.can_generate:
                admit(description.max_request_tokens)
                return EmbeddingEngine(description, model, constraints=constraints, embeddings=embeddings)
        if projector is not None:
            description = replace(description, media_kinds=projector.kinds)
        admission = admit(self._config.num_cells)
        thread = EngineThread(lambda: LlamaRunner(model, self._config), self._config, admission, self._clock)
        client = EngineClient(thread, admission)
        self._threads.add(thread)
        await client.start()
        return LocalEngine(
            description,
            model.tokenizer,
            constraints=constraints,
            thread=thread,
            client=client,
            projector=projector,
            embeddings=embeddings,
        )

    def _embeddings(self, model: LlamaModel) -> EmbeddingClient | None:
        """Its context is made when somebody asks for it."""
        from inference.engine.llama import LlamaEmbedder

        if model.pooling.can_generate and not self._has_embeddings:
            return None
        return EmbeddingClient(
            lambda: LlamaEmbedder(model, self._config),
            model.embedding_sizes(self._config).description,
            clock=self._clock,
            is_busy=self._is_generating,
        )

    def _is_generating(self) -> bool:
        """Whether anybody's answer is being computed, with whichever model of this loader."""
        return any(thread.statistics.num_runnable for thread in list(self._threads) if thread.is_alive)

    def _load_projector(self, model: LlamaModel) -> MediaProjector:
        from inference.engine.llama import LlamaProjector
        from inference.engine.llama.projector_trial import try_projector

        assert self._projector_path is not None
        try_projector(self._projector_path, self._model_path, self._config)
        return LlamaProjector.load(self._projector_path, model, self._config)
