"""Loads a GGUF file and runs it in this process: model, engine thread and client as one thing.

The only file of the engine that knows both its loop and llama.cpp's layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription
from inference.domain.tokenizer import Tokenizer
from inference.engine.client import Admission, EngineClient
from inference.engine.config import EngineConfig
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.stats import EngineStatistics
from inference.engine.thread import EngineThread

if TYPE_CHECKING:
    from inference.engine.llama import LlamaConstraintCompiler, LlamaModel

STOP_PATIENCE_S = 20.0


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
    ) -> None:
        self.description = description
        self.tokenizer = tokenizer
        self.constraints = constraints
        self.backend = client
        self.projector = projector
        self._thread = thread

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive

    def statistics(self) -> EngineStatistics:
        return self._thread.statistics

    def refuse(self, error: SkippyError) -> None:
        self.backend.refuse(error)

    def begin_stop(self) -> None:
        self._thread.begin_stop()

    def give_up(self) -> None:
        self._thread.give_up()

    async def stop(self) -> bool:
        is_freed = await self.backend.stop(STOP_PATIENCE_S)
        self.constraints.close()
        return is_freed


class LocalEngineLoader:
    """Loads what it is ordered to on a thread of its own. One loader serves all models of a process."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock

    async def load(self, order: LoadOrder, admit: Callable[[int], Admission]) -> LocalEngine:
        """Raises ModelLoadError where a file cannot be used, RuntimeError where the context cannot be made.
        Then nothing is held of what was loaded before."""
        # Here and not above: the site is put together in processes that never load a model.
        from inference.engine.llama import LlamaConstraintCompiler, LlamaModel, LlamaRunner

        config = order.config
        model = await asyncio.to_thread(LlamaModel.load, order.files.model, config)
        constraints: LlamaConstraintCompiler | None = None
        projector: MediaProjector | None = None
        try:
            constraints = await asyncio.to_thread(LlamaConstraintCompiler, model.tokenizer)
            if order.files.projector is not None:
                projector = await asyncio.to_thread(_load_projector, order.files, model, config)
            admission = admit(config.num_cells)
            # The runner frees the context, then the model, also where it cannot be made.
            thread = EngineThread(lambda: LlamaRunner(model, config), config, admission, self._clock)
            client = EngineClient(thread, admission)
            await client.start()
        except BaseException:
            if constraints is not None:
                constraints.close()
            if projector is not None:
                await asyncio.to_thread(projector.close)
            await asyncio.to_thread(model.close)
            raise
        description = model.description(order.settings.id)
        if projector is not None:
            description = replace(description, media_kinds=projector.kinds)
        return LocalEngine(
            description,
            model.tokenizer,
            constraints=constraints,
            thread=thread,
            client=client,
            projector=projector,
        )


def _load_projector(files: ModelFiles, model: LlamaModel, config: EngineConfig) -> MediaProjector:
    from inference.engine.llama import LlamaProjector
    from inference.engine.llama.projector_trial import try_projector

    assert files.projector is not None
    try_projector(files.projector, files.model, config)
    return LlamaProjector.load(files.projector, model, config)
