"""What lives as long as a process; one whose engine is gone or hangs ends itself, for a new one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from accounts.last_used import LastUsedBuffer
from hooks.contracts.snapshots import PolicySnapshot
from hooks.contracts.webhooks import WebhookFailed
from hooks.store import PolicyStore
from hooks.webhooks.caller import HttpWebhookCaller
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.maintenance import OPEN, Maintenance
from inference.ledger.generation_ledger import GenerationLedger
from inference.ledger.live_listener import LiveListener
from inference.telemetry.pipeline import TelemetryPipeline
from inference.telemetry.policy_observer import PolicyObserver
from skippy_site.hook_desk import PolicyFeed
from skippy_site.lifespan import SiteLifespan
from skippy_site.maintenance import MaintenanceWatch
from tests.record_stores import MemoryStore
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import Site
from tests.webhook_calls import webhook_call, webhook_settings

CHAT = b'{"model":"scripted","messages":[{"role":"user","content":"x"}]}'


async def away() -> None:
    raise ServiceUnavailable("away")


async def no_maintenance() -> Maintenance:
    return OPEN


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


def make_lifespan(
    site: Site,
    folder: Path,
    *,
    read: Callable[[], Coroutine[Any, Any, PolicySnapshot]] = no_policies,
    webhook_caller: HttpWebhookCaller | None = None,
) -> SiteLifespan:
    ledger = GenerationLedger(folder, make_store=MemoryStore, clock=SystemClock())
    store = PolicyStore(read=read, parameters={"host": str(folder)}, channel="none")
    caller = webhook_caller or HttpWebhookCaller()
    return SiteLifespan(
        site.runtime,
        ledger,
        LastUsedBuffer(),
        site.limit_desk,
        TelemetryPipeline((), clock=SystemClock()),
        live_listener=LiveListener({"host": str(folder)}, ledger.live),
        policy_store=store,
        policy_feed=PolicyFeed(store, caller, PolicyObserver(site.metrics.policies, site)),
        maintenance_watch=MaintenanceWatch(
            OPEN, what="notes", read=no_maintenance, parameters={"host": str(folder)}, channel="none"
        ),
        prepare_database=away,
    )


@pytest.mark.parametrize(("watchdog_s", "ends"), [(0.3, True), (0.0, False)])
async def test_a_hung_engine_ends_the_process_unless_nobody_watches(
    watchdog_s: float, ends: bool, tmp_path: Path
) -> None:
    site = Site(watchdog_s=watchdog_s)
    lifespan = make_lifespan(site, tmp_path)
    assert await ended_itself(lifespan, site, within_s=5 if ends else 1.2) is ends


async def test_webhooks_are_those_that_were_read_last_and_end_with_the_process(tmp_path: Path) -> None:
    webhooks = {1: webhook_settings("http://hook.example/")}

    async def read() -> PolicySnapshot:
        return PolicySnapshot(webhooks=dict(webhooks))

    caller = HttpWebhookCaller()
    lifespan = make_lifespan(Site(), tmp_path, read=read, webhook_caller=caller)
    await lifespan.start()
    try:
        assert [one.name for one in caller.statistics()] == ["review"]
        webhooks.clear()
        async with asyncio.timeout(30):
            while caller.statistics():
                await asyncio.sleep(0.05)
    finally:
        lifespan.begin_drain()
        await lifespan.stop()
    with pytest.raises(WebhookFailed, match="stops"):
        await caller.call(webhook_call(), timeout_s=1)
