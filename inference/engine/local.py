"""Loads a GGUF file and runs it in this process: model, engine thread and client as one thing.

The only file of the engine that knows both its loop and llama.cpp's layer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from inference.domain.clock import Clock
from inference.domain.errors import SkippyError
from inference.domain.media import MediaProjector
from inference.domain.model import ModelDescription, id_from_file_name
from inference.domain.tokenizer import Tokenizer
from inference.engine.client import Admission, EngineClient
from inference.engine.config import EngineConfig
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

    async def stop(self) -> None:
        await self.backend.stop(STOP_PATIENCE_S)
        self.constraints.close()


class LocalEngineLoader:
    """Loads `model_path` on a thread of its own, and `projector_path` where the model is to read pictures
    or sounds. `model_id` is made from the file's name if empty."""

    def __init__(
        self,
        model_path: Path,
        *,
        model_id: str,
        config: EngineConfig,
        clock: Clock,
        projector_path: Path | None = None,
    ) -> None:
        self._model_path = model_path
        self._model_id = model_id or id_from_file_name(model_path)
        self._config = config
        self._clock = clock
        self._projector_path = projector_path

    async def load(self, admit: Callable[[int], Admission]) -> LocalEngine:
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
        if projector is not None:
            description = replace(description, media_kinds=projector.kinds)
        admission = admit(self._config.num_cells)
        thread = EngineThread(lambda: LlamaRunner(model, self._config), self._config, admission, self._clock)
        client = EngineClient(thread, admission)
        await client.start()
        return LocalEngine(
            description,
            model.tokenizer,
            constraints=constraints,
            thread=thread,
            client=client,
            projector=projector,
        )

    def _load_projector(self, model: LlamaModel) -> MediaProjector:
        from inference.engine.llama import LlamaProjector
        from inference.engine.llama.projector_trial import try_projector

        assert self._projector_path is not None
        try_projector(self._projector_path, self._model_path, self._config)
        return LlamaProjector.load(self._projector_path, model, self._config)
