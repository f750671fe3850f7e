"""One model in memory: its engine with the admission before it, who watches it and who uses it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from inference.admission.controller import AdmissionController, AdmissionStatistics
from inference.domain.clock import Clock
from inference.domain.embeddings import EmbeddingStatistics
from inference.domain.model_settings import ModelSettings
from inference.engine.embedding_watchdog import EmbeddingWatchdog
from inference.engine.memory_plan import HOST
from inference.engine.stats import EngineStatistics
from inference.engine.watchdog import Stall, Watchdog
from inference.hosting.lease import LeaseBook, ModelLease
from inference.openai.request_defaults import RequestDefaults
from inference.services.engines import Engine
from inference.services.model_catalog import ServedModel


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """What is held of one model right now; all of it is back to nothing when nobody generates."""

    num_leases: int
    engine: EngineStatistics
    admission: AdmissionStatistics
    embeddings: EmbeddingStatistics = field(default_factory=EmbeddingStatistics)


class LoadedModel:
    """Made by ModelWorkshop; `close()` frees all of it."""

    def __init__(
        self,
        served: ServedModel,
        engine: Engine,
        admission: AdmissionController,
        *,
        watchdog_s: float,
        clock: Clock,
        maps_weights: bool,
    ) -> None:
        self.served = served
        self.engine = engine
        self.admission = admission
        self.leases = LeaseBook(clock)
        self._watchdog = Watchdog(watchdog_s)
        self._embedding_watchdog = EmbeddingWatchdog(watchdog_s)
        self._clock = clock
        self._maps_weights = maps_weights

    @property
    def is_alive(self) -> bool:
        return self.engine.is_alive

    @property
    def memory_bytes(self) -> int:
        """Of all devices together."""
        return sum([one.needed_bytes for one in self.engine.statistics().memory])

    @property
    def claimed_bytes(self) -> int:
        """What of the memory that the system calls available is this model's: weights on the CPU that would
        be dropped for others, and what its host cache may still grow by."""
        statistics = self.engine.statistics()
        weights = [one.weights_bytes for one in statistics.memory if one.device == HOST]
        growth_bytes = statistics.cold.max_bytes - statistics.cold.num_bytes
        return growth_bytes + (sum(weights) if self._maps_weights else 0)

    def lease(self, *, waited_s: float = 0.0) -> ModelLease:
        return self.leases.acquire(self.served, waited_s=waited_s)

    def take_over(self, settings: ModelSettings, defaults: RequestDefaults) -> None:
        """Serve newcomers by these settings, which need no new load."""
        description = replace(self.served.description, id=settings.id)
        self.admission.model_id = settings.id
        self.served = replace(
            self.served,
            settings=settings,
            description=description,
            defaults=defaults.within_vocabulary(description.num_vocabulary),
        )

    def watch(self) -> Stall | None:
        """Look whether the engine makes progress, and who computes embeddings. One that hangs is given up:
        it counts as dead then, with all of the model, which cannot be freed under it."""
        now_ts = self._clock.monotonic()
        stall = self._watchdog.observe(self.engine.statistics(), now_ts)
        embeddings = self.served.embeddings
        if embeddings is not None and self.engine.is_alive:
            stall = self._embedding_watchdog.observe(embeddings.statistics(), now_ts) or stall
        if stall is not None:
            self.engine.give_up()
        return stall

    def statistics(self) -> ModelStatistics:
        embeddings = self.served.embeddings
        return ModelStatistics(
            self.leases.num_held,
            self.engine.statistics(),
            self.admission.statistics(),
            EmbeddingStatistics() if embeddings is None else embeddings.statistics(),
        )

    async def close(self) -> bool:
        """End the engine at once, whoever still generates, and free what it holds. False where its thread
        hangs: then that is held until the process ends."""
        is_freed = await self.engine.stop()
        await asyncio.to_thread(self.served.media.close)
        return is_freed

    def __repr__(self) -> str:
        return f"<LoadedModel {self.served.settings.id}, {self.leases!r}, {self.engine!r}>"
