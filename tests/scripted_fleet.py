"""A real fleet over scripted engines: a test decides how loads go, and sees what is held."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accounts.contracts import Principal
from inference.admission.controller import AdmissionController
from inference.domain.errors import InvalidRequest, ServiceUnavailable
from inference.domain.model_settings import LoadPolicy, ModelSettings, ModelState, ModelStatus
from inference.engine.load_order import LoadOrder
from inference.engine.stats import EngineStatistics
from inference.hosting.fleet import Fleet
from inference.hosting.hosted_model import HostedModel
from inference.hosting.workshop import ModelWorkshop, ServingSettings
from tests.clocks import FakeClock
from tests.scripted_engine import ScriptedEngine, no_files, small_sizes

PATIENCE_S = 10.0
ADA = Principal(user_id=1, username="ada", key_id=7, key_name="test", team_id=3)


def row(row_id: int = 1, **fields: Any) -> ModelSettings:
    """Settings of a model; its id is m1, m2, …"""
    return ModelSettings(
        **{"row_id": row_id, "revision": 1, "id": f"m{row_id}", "source": f"m{row_id}.gguf", **fields}
    )


def on_demand(row_id: int = 1, **fields: Any) -> ModelSettings:
    return row(row_id, load_policy=LoadPolicy.ON_DEMAND, **fields)


def changed(settings: ModelSettings, **fields: Any) -> ModelSettings:
    return replace(settings, revision=settings.revision + 1, **fields)


class MemoryModelStore:
    """Rows that a test changes, and what was reported of them."""

    def __init__(self, *rows: ModelSettings) -> None:
        self.rows = rows
        self.is_away = False
        self.refusal: InvalidRequest | None = None
        self.reports: deque[tuple[ModelStatus, ...]] = deque(maxlen=10)
        self.is_closed = False

    async def settings(self) -> tuple[ModelSettings, ...]:
        if self.is_away:
            raise ServiceUnavailable("away")
        if self.refusal is not None:
            raise self.refusal
        return self.rows

    async def report(self, statuses: tuple[ModelStatus, ...]) -> None:
        if self.is_away:
            raise ServiceUnavailable("away")
        self.reports.append(statuses)

    async def close(self) -> None:
        self.is_closed = True


class CountedEngine(ScriptedEngine):
    """Says when it is freed."""

    def __init__(self, id: str, on_freed: Callable[[], None]) -> None:
        super().__init__()
        self.description = replace(self.description, id=id)
        self._on_freed = on_freed
        self._is_freed = False
        self.num_stops = 0
        self._num_turns = 0

    def statistics(self) -> EngineStatistics:
        self._num_turns += 1  # its loop goes round
        return replace(super().statistics(), total_turns=self._num_turns)

    async def stop(self) -> bool:
        self.num_stops += 1
        self.is_alive = False
        await asyncio.sleep(0)
        if self.can_be_freed and not self._is_freed:
            self._is_freed = True
            self._on_freed()
        return self.can_be_freed


class GatedLoader:
    """Counts the engines that there are of each model. `gate` lets loads through where it is set; `failures`
    are what the next loads of a model raise."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.orders: list[LoadOrder] = []
        self.engines: dict[int, list[CountedEngine]] = {}
        self.num_alive: dict[int, int] = {}
        self.num_loading = 0
        self.most_loading = 0
        self.failures: dict[int, list[Exception]] = {}

    async def load(self, order: LoadOrder, admit: Callable[[int], AdmissionController]) -> CountedEngine:
        row_id = order.settings.row_id
        self.orders.append(order)
        assert not self.num_alive.get(row_id), f"two engines of model {row_id}"
        self.num_alive[row_id] = 1
        self.num_loading += 1
        self.most_loading = max(self.most_loading, self.num_loading)
        try:
            await self.gate.wait()
            if failures := self.failures.get(row_id):
                raise failures.pop(0)
        except BaseException:
            self.num_alive[row_id] = 0
            raise
        finally:
            self.num_loading -= 1
        engine = CountedEngine(order.settings.id, lambda: self.num_alive.update({row_id: 0}))
        admit(engine.description.num_cells)
        self.engines.setdefault(row_id, []).append(engine)
        return engine

    def engine(self, row_id: int = 1) -> CountedEngine:
        return self.engines[row_id][-1]


class SilentRecorder:
    def record(self, summary: object) -> None: ...

    def record_event(self, event: object) -> None: ...


class ScriptedFleet:
    """Use as an async context manager."""

    def __init__(
        self,
        *rows: ModelSettings,
        clock: FakeClock | None = None,
        drain_grace_s: float = 30.0,
        watchdog_s: float = 0.0,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = MemoryModelStore(*rows)
        self.loader = GatedLoader()
        workshop = ModelWorkshop(
            ServingSettings(watchdog_s=watchdog_s),
            loader=self.loader,
            sources=no_files,
            sizes=small_sizes,
            recorder=SilentRecorder(),
            clock=self.clock,
        )
        self.fleet = Fleet(self.store, workshop, clock=self.clock, drain_grace_s=drain_grace_s)

    async def __aenter__(self) -> ScriptedFleet:
        self.fleet.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.loader.gate.set()
        await self.fleet.stop()

    def model(self, row_id: int = 1) -> HostedModel:
        return self.fleet.find(f"m{row_id}", ADA)

    async def set(self, *rows: ModelSettings) -> None:
        """Change the rows, and wait until they were taken over."""
        self.store.rows = rows
        self.fleet.refresh()
        await until(lambda: self.fleet.rows == rows)

    async def until_state(self, state: ModelState, row_id: int = 1) -> None:
        def state_now() -> ModelState | None:
            row = next((row for row in self.fleet.rows if row.row_id == row_id), None)
            return None if row is None else self.fleet.find(row.id, ADA).state

        await until(lambda: state_now() is state)

    def is_held(self, row_id: int = 1) -> bool:
        return bool(self.loader.num_alive.get(row_id))


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what happens on the event loop and on threads."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)
