"""Turns what a model's row names into files, fetched first where they are not here yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from inference.domain.model_settings import ModelSettings
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import ModelFiles
from skippy_site.model_sources import source_path
from skippy_site.provision.model_source import resolve_source
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.state import StateFolder


class ModelFileSources:
    """Implements ModelSources with the downloads of a state folder. Downloads take a thread each: they
    wait for the network, mostly."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state

    async def __call__(self, settings: ModelSettings, report: Callable[[str], None]) -> ModelFiles:
        loop = asyncio.get_running_loop()

        def tell(text: str) -> None:
            loop.call_soon_threadsafe(report, text)

        try:
            return await asyncio.to_thread(self._files, settings, tell)
        except ProvisionProblem as problem:
            advice = f" {problem.advice}" if problem.advice else ""
            raise ModelLoadError(f"{problem}{advice}") from None

    def _files(self, settings: ModelSettings, report: Callable[[str], None]) -> ModelFiles:
        def file(source: str, what: str) -> Path:
            path = source_path(source, self._state)
            return resolve_source(source if path is None else str(path), what, self._state, report)

        projector, draft = settings.projector_source, settings.speculation.draft_source
        return ModelFiles(
            model=file(settings.source, "source"),
            projector=file(projector, "projector_source") if projector else None,
            draft=file(draft, "draft_source") if draft else None,
            adapters={one.name: file(one.source, f"adapter {one.name}") for one in settings.adapters},
        )
