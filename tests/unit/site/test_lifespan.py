"""A process whose engine is gone or hangs ends itself, for the supervisor to start a new one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from accounts.last_used import LastUsedBuffer
from hooks.contracts.snapshots import PolicySnapshot
from hooks.store import PolicyStore
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.ledger.generation_ledger import GenerationLedger
from inference.ledger.live_listener import LiveListener
from inference.telemetry.pipeline import TelemetryPipeline
from skippy_site.lifespan import SiteLifespan
from tests.record_stores import MemoryStore
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import Site

CHAT = b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'


async def away() -> None:
    raise ServiceUnavailable("away")


async def no_policies() -> PolicySnapshot:
    return PolicySnapshot()


async def ended_itself(lifespan: SiteLifespan, site: Site, *, within_s: float) -> bool:
    """Whether SIGTERM came, as from the process to itself."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    try:
        await lifespan.start()
        site.engine.play = ScriptedHandle.start
        while site.runtime.state.name == "LOADING":
            await asyncio.sleep(0)
        asked = asyncio.ensure_future(site.post("/v1/chat/completions", CHAT))
        try:
            await asyncio.wait_for(told.wait(), within_s)
        except TimeoutError:
            return False
        assert (await asked).status == 503
        return True
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        lifespan.begin_drain()
        await lifespan.stop()
        asked.cancel()


@pytest.mark.parametrize(("watchdog_s", "ends"), [(0.3, True), (0.0, False)])
async def test_a_hung_engine_ends_the_process_unless_nobody_watches(
    watchdog_s: float, ends: bool, tmp_path: Path
) -> None:
    site = Site(watchdog_s=watchdog_s)
    ledger = GenerationLedger(tmp_path, make_store=MemoryStore, clock=SystemClock())
    lifespan = SiteLifespan(
        site.runtime,
        ledger,
        LastUsedBuffer(),
        site.limit_desk,
        TelemetryPipeline((), clock=SystemClock()),
        live_listener=LiveListener({"host": str(tmp_path)}, ledger.live),
        policy_store=PolicyStore(read=no_policies, parameters={"host": str(tmp_path)}, channel="none"),
        prepare_database=away,
    )
    assert await ended_itself(lifespan, site, within_s=5 if ends else 1.2) is ends
