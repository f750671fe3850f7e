"""Loads a GGUF file and runs it in this process: model, engine thread and client as one thing.

The only file of the engine that knows both its loop and llama.cpp's layer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription
from inference.domain.speculation import SpeculationMode
from inference.domain.tokenizer import Tokenizer
from inference.engine.client import Admission, EngineClient
from inference.engine.config import EngineConfig
from inference.engine.embedding_client import EmbeddingClient
from inference.engine.embedding_engine import STOP_PATIENCE_S, EmbeddingEngine
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.stats import EngineStatistics
from inference.engine.thread import EngineThread

if TYPE_CHECKING:
    from inference.engine.llama import LlamaConstraintCompiler, LlamaModel

logger = logging.getLogger(__name__)


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

    async def stop(self) -> bool:
        is_freed = True
        if self.embeddings is not None:
            # Before the model, which its context is of.
            is_freed = await self.embeddings.stop(STOP_PATIENCE_S)
        is_freed = await self.backend.stop(STOP_PATIENCE_S) and is_freed
        self.constraints.close()
        return is_freed


class LocalEngineLoader:
    """Loads what it is ordered to on a thread of its own. One loader serves all models of a process."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._threads: WeakSet[EngineThread] = WeakSet()

    async def load(
        self, order: LoadOrder, admit: Callable[[int], Admission]
    ) -> LocalEngine | EmbeddingEngine:
        """Raises ModelLoadError where a file cannot be used, RuntimeError where the context cannot be made.
        Then nothing is held of what was loaded before."""
        # Here and not above: the site is put together in processes that never load a model.
        from inference.engine.llama import LlamaConstraintCompiler, LlamaModel, LlamaRunner
        from inference.engine.llama.draft_model import load_draft

        config = order.config
        if order.others_bytes is not None:
            await asyncio.to_thread(_check_beside_others, order.files, config, order.others_bytes)
        model = await asyncio.to_thread(LlamaModel.load, order.files.model, config)
        constraints: LlamaConstraintCompiler | None = None
        projector: MediaProjector | None = None
        draft: LlamaModel | None = None
        try:
            if order.files.adapters:
                await asyncio.to_thread(model.load_adapters, order.files.adapters)
            constraints = await asyncio.to_thread(LlamaConstraintCompiler, model.tokenizer)
            description = model.description(order.settings.id)
            embeddings = self._embeddings(order, model)
            if embeddings is not None:
                description = replace(description, embedding=embeddings.description)
            if embeddings is not None and not description.can_generate:
                admit(description.max_request_tokens)
                return EmbeddingEngine(description, model, constraints=constraints, embeddings=embeddings)
            if order.files.projector is not None:
                projector = await asyncio.to_thread(_load_projector, order.files, model, config)
            if order.files.draft is not None:
                draft = await asyncio.to_thread(load_draft, order.files.draft, model, config)
            admission = admit(config.num_cells)
            # The runner frees the contexts, then the models, also where it cannot be made.
            thread = EngineThread(
                lambda: LlamaRunner(model, config, draft=draft), config, admission, self._clock
            )
            self._threads.add(thread)
            client = EngineClient(thread, admission)
            await client.start()
        except BaseException:
            if constraints is not None:
                constraints.close()
            if projector is not None:
                await asyncio.to_thread(projector.close)
            if draft is not None:
                await asyncio.to_thread(draft.close)
            await asyncio.to_thread(model.close)
            raise
        if projector is not None:
            description = replace(description, media_kinds=projector.kinds)
        description = replace(description, speculation_modes=_speculation_modes(order, thread))
        return LocalEngine(
            description,
            model.tokenizer,
            constraints=constraints,
            thread=thread,
            client=client,
            projector=projector,
            embeddings=embeddings,
        )

    def _embeddings(self, order: LoadOrder, model: LlamaModel) -> EmbeddingClient | None:
        """Its context is made when somebody asks for it."""
        from inference.engine.llama import LlamaEmbedder

        if model.pooling.can_generate and not order.settings.has_embeddings:
            return None
        embeddings = EmbeddingClient(
            lambda: LlamaEmbedder(model, order.config),
            model.embedding_sizes(order.config).description,
            clock=self._clock,
            is_busy=self._is_generating,
        )
        # Also where the engine frees the model by itself, after a fault.
        model.before_close(embeddings.begin_stop)
        return embeddings

    def _is_generating(self) -> bool:
        """Whether anybody's answer is being computed, with whichever model of this loader."""
        return any(thread.statistics.num_runnable for thread in list(self._threads) if thread.is_alive)


def _check_beside_others(files: ModelFiles, config: EngineConfig, others_bytes: int) -> None:
    from inference.engine.llama.load_check import check_beside_others

    check_beside_others(files, config, others_bytes)


def _speculation_modes(order: LoadOrder, thread: EngineThread) -> frozenset[SpeculationMode]:
    """The ways to draft that this model has; one that it was to draft by, and has not, is told in the log."""
    modes: frozenset[SpeculationMode] = frozenset()
    if thread.can_speculate:
        modes |= {SpeculationMode.PROMPT_LOOKUP}
        if order.files.draft is not None:
            modes |= {SpeculationMode.DRAFT_MODEL}
    wanted = order.settings.speculation.mode
    if wanted is not SpeculationMode.OFF and wanted not in modes:
        logger.warning("%s cannot be drafted by %s: it answers without", order.settings.id, wanted.value)
    return modes


def _load_projector(files: ModelFiles, model: LlamaModel, config: EngineConfig) -> MediaProjector:
    from inference.engine.llama import LlamaProjector
    from inference.engine.llama.projector_trial import try_projector

    assert files.projector is not None
    try_projector(files.projector, files.model, config)
    return LlamaProjector.load(files.projector, model, config)
