"""The fleet as a whole: engines that die, stores that are away, what is reported and listed."""

from __future__ import annotations

import asyncio

import pytest

from inference.domain.errors import InvalidRequest, ServiceUnavailable
from inference.domain.model_settings import ModelState
from inference.engine.load_error import ModelLoadError
from inference.hosting.retries import FIRST_PAUSE_S
from tests.scripted_fleet import ADA, ScriptedFleet, changed, on_demand, row, until

READY, FAILED, UNLOADED = ModelState.READY, ModelState.FAILED, ModelState.UNLOADED


async def test_a_dead_engine_beside_others_is_freed_and_loaded_again_after_a_pause():
    async with ScriptedFleet(row(1), row(2)) as site:
        await site.until_state(READY, 1)
        await site.until_state(READY, 2)
        site.loader.engine(1).is_alive = False
        with pytest.raises(ServiceUnavailable):
            await site.fleet.acquire("m1", ADA, limit_s=None)
        site.fleet.watch()
        await site.until_state(FAILED, 1)
        assert not site.is_held(1)
        assert site.fleet.statuses()[0].cause == "the engine has stopped"
        condition = site.fleet.condition()
        assert condition.is_serving and not condition.is_lost
        assert condition.failures == (("m1", "the engine has stopped"),)
        site.fleet.watch()
        site.clock.advance(FIRST_PAUSE_S)
        site.fleet.refresh()
        await site.until_state(READY, 1)
        assert len(site.loader.engines[2]) == 1
        assert not site.fleet.condition().failures


async def test_a_dead_engine_that_was_all_there_is_stays_for_the_process_to_end():
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        assert not site.fleet.condition().is_lost
        site.loader.engine().is_alive = False
        site.fleet.watch()
        await asyncio.sleep(0.02)
        assert site.loader.engine().num_stops == 0
        assert site.fleet.condition().is_lost
        assert site.fleet.statuses()[0].state is FAILED


async def test_a_hung_engine_that_cannot_be_freed_makes_the_process_end_though_others_serve():
    async with ScriptedFleet(row(1), row(2), watchdog_s=5.0) as site:
        await site.until_state(READY, 1)
        await site.until_state(READY, 2)
        hung = site.loader.engine(1)
        hung.can_be_freed = False
        lease = await site.fleet.acquire("m1", ADA, limit_s=None)
        hung.handles.append(lease.model.backend.submit(None))  # it says that it has work
        for _ in range(4):
            site.fleet.watch()
            site.clock.advance(4.0)
        assert not hung.is_alive
        lease.release()
        await site.until_state(FAILED, 1)
        assert "no progress" in site.fleet.statuses()[0].cause
        assert site.fleet.condition().is_lost
        site.clock.advance(1000.0)
        for _ in range(3):
            site.fleet.refresh()
            await asyncio.sleep(0.01)
        # Another one beside it would have twice the memory.
        assert len(site.loader.engines[1]) == 1
        await site.set(row(2))
        assert site.fleet.condition().is_lost
        (await site.fleet.acquire("m2", ADA, limit_s=None)).release()


async def test_rows_that_cannot_be_read_leave_all_as_it_was(caplog):
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        site.store.is_away = True
        for _ in range(3):
            site.fleet.refresh()
            await asyncio.sleep(0.01)
        (await site.fleet.acquire("m1", ADA, limit_s=None)).release()
        assert len([one for one in caplog.records if "cannot be read" in one.getMessage()]) == 1
        site.store.is_away = False
        await site.set(row(1), row(2))
        await site.until_state(READY, 2)


async def test_until_rows_were_read_nobody_knows_which_models_there_are():
    site = ScriptedFleet(row())
    site.store.is_away = True
    async with site:
        await asyncio.sleep(0.01)
        with pytest.raises(ServiceUnavailable, match="starting"):
            await site.fleet.acquire("m1", ADA, limit_s=None)
        assert not site.fleet.condition().is_serving
        site.store.is_away = False
        site.fleet.refresh()
        await site.until_state(READY)


async def test_a_first_row_that_cannot_be_is_told_to_the_operator_and_may_be_repaired(caplog):
    site = ScriptedFleet(row())
    site.store.refusal = InvalidRequest("There is no file /nowhere.gguf.", param="source")
    async with site:
        await until(lambda: site.fleet.condition().has_failed)
        for _ in range(3):
            site.fleet.refresh()
            await asyncio.sleep(0.01)
        assert site.fleet.condition().causes == ("There is no file /nowhere.gguf.",)
        assert [one.levelname for one in caplog.records if "/nowhere" in one.getMessage()] == ["CRITICAL"]
        with pytest.raises(ServiceUnavailable, match="starting"):
            await site.fleet.acquire("m1", ADA, limit_s=None)
        site.store.refusal = None
        site.fleet.refresh()
        await site.until_state(READY)
        assert not site.fleet.condition().causes


async def test_changes_are_reported_at_once_and_life_now_and_then():
    async with ScriptedFleet(row()) as site:
        await until(lambda: site.store.reports and site.store.reports[-1][0].state is READY)
        states = [report[0].state for report in site.store.reports]
        assert states[-1] is READY and ModelState.LOADING in states
        num_reports = len(site.store.reports)
        for _ in range(3):
            site.fleet.refresh()
            await asyncio.sleep(0.01)
        assert len(site.store.reports) == num_reports
        site.clock.advance(5.0)
        site.fleet.refresh()
        await until(lambda: len(site.store.reports) == num_reports + 1)
        await site.set(changed(row(), aliases=("x",)))
        await until(lambda: site.store.reports[-1][0].revision == 2)


async def test_ready_is_who_has_loaded_all_that_can_be_loaded():
    site = ScriptedFleet(row(1), row(2), on_demand(3))
    site.loader.gate.clear()
    site.loader.failures[2] = [ModelLoadError("no such file")]
    async with site:
        await site.until_state(ModelState.LOADING, 1)
        assert not site.fleet.condition().is_serving
        site.loader.gate.set()
        await site.until_state(FAILED, 2)
        condition = site.fleet.condition()
        assert condition.is_serving and condition.num_serving == 2
        assert condition.causes == ("m2: no such file",)
        # What is added later takes nothing away.
        site.loader.gate.clear()
        await site.set(row(1), row(2), on_demand(3), row(4))
        await site.until_state(ModelState.LOADING, 4)
        assert site.fleet.condition().is_serving


async def test_all_that_can_be_used_is_listed_with_its_state_and_what_is_known_of_it():
    rows = row(1), on_demand(2), row(3, wants_loaded=False)
    async with ScriptedFleet(*rows) as site:
        await site.until_state(READY, 1)
        first, second = site.fleet.listed(ADA)
        assert (first.id, first.state, first.description is not None) == ("m1", READY, True)
        assert (second.id, second.state, second.description) == ("m2", UNLOADED, None)
        (await site.fleet.acquire("m2", ADA, limit_s=None)).release()
        await site.set(rows[0], changed(rows[1], wants_loaded=False), rows[2])
        await site.until_state(UNLOADED, 2)
        await site.set(rows[0], changed(changed(rows[1])), rows[2])
        known = site.fleet.listed(ADA)[1]
        assert known.state is UNLOADED and known.description is not None


async def test_an_unknown_default_is_the_first_and_a_set_one_goes_before():
    async with ScriptedFleet(row(1), row(2)) as site:
        await site.until_state(READY, 2)
        with await site.fleet.acquire(None, ADA, limit_s=None) as lease:
            assert lease.model.settings.id == "m1"
        await site.set(row(1), changed(row(2), is_default=True))
        with await site.fleet.acquire(None, ADA, limit_s=None) as lease:
            assert lease.model.settings.id == "m2"
