"""Real models loaded and unloaded many times in one process: nothing of them stays, and others go on."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from pathlib import Path

import pytest

from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Failed, Finished
from inference.domain.model_settings import ModelSettings, ModelState
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.engine.config import EngineConfig
from inference.engine.load_error import ModelDoesNotFit
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.local import LocalEngineLoader
from inference.hosting.fleet import Fleet
from inference.hosting.workshop import ModelSizes, ModelWorkshop, ServingSettings
from inference.services.model_catalog import ServedModel
from tests.scripted_engine import no_files
from tests.scripted_fleet import ADA, MemoryModelStore, SilentRecorder, changed, on_demand, row

NUM_SWAPS = 8
NUM_WARM_SWAPS = 3
# What the allocator may keep for itself; one tiny model is 13 MB, with its tables and KV cells 25.
MAX_GROWTH_BYTES = 20_000_000
PATIENCE_S = 120.0
SIZES = ModelSizes(
    engine=EngineConfig(num_lanes=4, num_cells=2048, num_threads=1, max_cached_entries=8), max_waiting=16
)


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def num_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class RealFleet:
    """Real engines, rows that a test changes. Use as an async context manager."""

    def __init__(self, *rows: ModelSettings) -> None:
        self.store = MemoryModelStore(*rows)
        clock = SystemClock()
        workshop = ModelWorkshop(
            ServingSettings(),
            loader=LocalEngineLoader(clock=clock),
            sources=no_files,
            sizes=lambda settings: SIZES,
            recorder=SilentRecorder(),
            clock=clock,
        )
        self.fleet = Fleet(self.store, workshop, clock=clock, drain_grace_s=10.0)

    async def __aenter__(self) -> RealFleet:
        self.fleet.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fleet.stop()

    async def set(self, *rows: ModelSettings) -> None:
        self.store.rows = rows
        self.fleet.refresh()

    async def until_state(self, row_id: int, state: ModelState) -> None:
        def state_now() -> ModelState | None:
            statuses = {status.row_id: status for status in self.fleet.statuses()}
            status = statuses.get(row_id)
            assert status is None or status.state is not ModelState.FAILED, status
            return None if status is None else status.state

        async with asyncio.timeout(PATIENCE_S):
            while state_now() is not state:
                await asyncio.sleep(0.01)


async def generate(model: ServedModel, request_id: str, *, max_tokens: int = 16) -> int:
    """Tokens that came, once all has."""
    prompt = tuple(model.tokenizer.tokenize("Once upon a time", add_special=True, parse_special=False))
    handle = model.backend.submit(
        GenerationRequest(
            request_id=request_id,
            prompt_token_ids=prompt,
            max_tokens=max_tokens,
            sampling=SamplingParams(),
            ignore_eos=True,
        )
    )
    num_tokens = 0
    async for event in handle:
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, Finished):
            break
        num_tokens += len(getattr(event, "token_ids", ()))
    return num_tokens


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_many_loads_and_unloads_leave_nothing_behind_and_another_model_goes_on(
    tiny_model_path: Path,
) -> None:
    first = row(1, source=str(tiny_model_path))
    second = row(2, source=str(tiny_model_path), wants_loaded=False)
    is_over = False
    num_answers = 0

    async def stream(site: RealFleet, number: int) -> None:
        nonlocal num_answers
        count = 0
        while not is_over:
            count += 1
            with await site.fleet.acquire("m1", ADA, limit_s=None) as lease:
                assert await generate(lease.model, f"steady-{number}-{count}") == 16
            num_answers += 1

    async with RealFleet(first, second) as site:
        await site.until_state(1, ModelState.READY)
        streams = [asyncio.create_task(stream(site, number)) for number in range(2)]
        measured: list[tuple[int, int, int]] = []
        for number in range(NUM_SWAPS):
            second = changed(second, wants_loaded=True)
            await site.set(first, second)
            await site.until_state(2, ModelState.READY)
            with await site.fleet.acquire("m2", ADA, limit_s=None) as lease:
                assert await generate(lease.model, f"swapped-{number}") == 16
            del lease
            second = changed(second, wants_loaded=False)
            await site.set(first, second)
            await site.until_state(2, ModelState.UNLOADED)
            gc.collect()
            measured.append((rss_bytes(), threading.active_count(), num_files()))
        is_over = True
        await asyncio.gather(*streams)
        warm, last = measured[NUM_WARM_SWAPS], measured[-1]
        assert last[0] - warm[0] < MAX_GROWTH_BYTES, [rss // 1_000_000 for rss, _, _ in measured]
        assert last[1:] == warm[1:], measured
        assert num_answers > NUM_SWAPS
        assert site.fleet.find("m1", ADA).state is ModelState.READY


async def test_the_tables_of_an_unloaded_model_do_not_wait_for_the_collector(tiny_model_path: Path) -> None:
    clock = SystemClock()
    workshop = ModelWorkshop(
        ServingSettings(),
        loader=LocalEngineLoader(clock=clock),
        sources=no_files,
        sizes=lambda settings: SIZES,
        recorder=SilentRecorder(),
        clock=clock,
    )
    settings = row(1, source=str(tiny_model_path))
    order = LoadOrder(settings=settings, files=ModelFiles(model=tiny_model_path), config=SIZES.engine)
    gc.collect()
    gc.disable()
    try:
        loaded = await workshop.load(order, SIZES)
        assert await generate(loaded.served, "one") == 16
        held = [weakref.ref(loaded), weakref.ref(loaded.served.tokenizer), weakref.ref(loaded.served.prompts)]
        assert await loaded.close()
        del loaded
        assert [is_there() for is_there in held] == [None] * 3
    finally:
        gc.enable()


async def test_a_real_model_on_demand_is_loaded_once_for_all_who_ask_and_goes_when_nobody_does(
    tiny_model_path: Path,
) -> None:
    async with RealFleet(on_demand(1, source=str(tiny_model_path), idle_unload_s=0.2)) as site:
        await site.until_state(1, ModelState.UNLOADED)

        async def ask(number: int) -> int:
            with await site.fleet.acquire("m1", ADA, limit_s=PATIENCE_S) as lease:
                return await generate(lease.model, f"asked-{number}", max_tokens=4)

        assert await asyncio.gather(*[ask(number) for number in range(5)]) == [4] * 5
        await site.until_state(1, ModelState.UNLOADED)
        assert await ask(9) == 4


async def test_who_generates_when_the_grace_is_over_is_told(tiny_model_path: Path) -> None:
    first = row(1, source=str(tiny_model_path))
    async with RealFleet(first) as site:
        await site.until_state(1, ModelState.READY)
        lease = await site.fleet.acquire("m1", ADA, limit_s=None)
        asked = asyncio.create_task(generate(lease.model, "long", max_tokens=1900))
        await asyncio.sleep(0.1)
        stopping = asyncio.create_task(site.fleet.stop())
        with pytest.raises(ServiceUnavailable):
            await asked
        lease.release()
        await stopping


async def test_a_model_that_would_push_others_out_is_refused_before_it_is_read(tiny_model_path: Path) -> None:
    order = LoadOrder(
        settings=row(1),
        files=ModelFiles(model=tiny_model_path),
        config=SIZES.engine,
        others_bytes=2**60,
    )

    def admit(num_cells: int) -> object:
        raise AssertionError("it was to be refused before")

    with pytest.raises(ModelDoesNotFit):
        await LocalEngineLoader(clock=SystemClock()).load(order, admit)  # type: ignore[arg-type]
