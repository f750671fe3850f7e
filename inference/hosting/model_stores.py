"""Models that are set up once and for all: where no table says which there are."""

from __future__ import annotations

from inference.domain.model_settings import ModelSettings, ModelStatus


class StaticModelStore:
    """A ModelStore of what it is made with. What is reported to it nobody asks for."""

    def __init__(self, *models: ModelSettings) -> None:
        self._models = models

    async def settings(self) -> tuple[ModelSettings, ...]:
        return self._models

    async def report(self, statuses: tuple[ModelStatus, ...]) -> None:
        """Nobody reads it."""

    async def close(self) -> None:
        """There is nothing to take back."""
