"""Every way from one state of a model to the next, and what requests see of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from inference.domain.errors import ModelNotFound, ServiceUnavailable
from inference.domain.model_settings import ModelAccess, ModelState
from inference.engine.load_error import ModelDoesNotFit, ModelLoadError
from inference.hosting.fleet import Fleet
from inference.hosting.lease import ModelLease
from tests.scripted_fleet import ADA, ScriptedFleet, changed, on_demand, row, until

READY, LOADING, DRAINING = ModelState.READY, ModelState.LOADING, ModelState.DRAINING
FAILED, UNLOADED = ModelState.FAILED, ModelState.UNLOADED


async def acquire(fleet: Fleet, row_id: int = 1, *, limit_s: float | None = 10.0) -> ModelLease:
    return await fleet.acquire(f"m{row_id}", ADA, limit_s=limit_s)


async def test_one_that_is_always_there_is_loaded_at_once_and_refuses_until_then():
    async with ScriptedFleet(row()) as site:
        site.loader.gate.clear()
        await site.until_state(LOADING)
        with pytest.raises(ServiceUnavailable, match="still being loaded") as refused:
            await acquire(site.fleet)
        assert refused.value.retry_after_s
        site.loader.gate.set()
        await site.until_state(READY)
        with await acquire(site.fleet) as lease:
            assert lease.model.description.id == "m1"
    assert not site.is_held()
    assert site.store.is_closed


async def test_the_first_of_many_requests_loads_and_all_wait_for_that_one_load():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.gate.clear()
        asking = [asyncio.ensure_future(acquire(site.fleet)) for _ in range(20)]
        await site.until_state(LOADING)
        site.clock.advance(3.0)
        site.loader.gate.set()
        leases = await asyncio.gather(*asking)
        assert len(site.loader.orders) == 1
        assert site.fleet.loaded()[0].leases.num_held == 20
        assert {lease.waited_s for lease in leases} == {3.0}
        for lease in leases:
            lease.release()


async def test_who_leaves_or_has_waited_too_long_waits_for_nothing_and_the_load_goes_on():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.gate.clear()
        left, patient = [asyncio.ensure_future(acquire(site.fleet)) for _ in range(2)]
        with pytest.raises(ServiceUnavailable, match="still being loaded"):
            await acquire(site.fleet, limit_s=0.01)
        left.cancel()
        await asyncio.wait([left])
        site.loader.gate.set()
        (await patient).release()
        assert site.fleet.loaded()[0].leases.num_held == 0
        assert len(site.loader.orders) == 1


async def test_a_waiter_that_leaves_as_the_model_comes_holds_no_lease():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.gate.clear()
        leaving = asyncio.ensure_future(acquire(site.fleet))
        await site.until_state(LOADING)
        model = site.model()
        site.loader.gate.set()
        while model.state is not READY:
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        await until(lambda: site.fleet.loaded()[0].leases.num_held == 0)


async def test_what_nobody_uses_for_a_while_is_unloaded_and_comes_back():
    async with ScriptedFleet(on_demand(idle_unload_s=60.0)) as site:
        await site.until_state(UNLOADED)
        lease = await acquire(site.fleet)
        site.clock.advance(100.0)
        site.fleet.refresh()
        await asyncio.sleep(0.02)
        assert site.model().state is READY
        lease.release()
        site.clock.advance(59.0)
        site.fleet.refresh()
        await asyncio.sleep(0.02)
        assert site.model().state is READY
        site.clock.advance(1.0)
        site.fleet.refresh()
        await site.until_state(UNLOADED)
        assert not site.is_held()
        (await acquire(site.fleet)).release()
        assert len(site.loader.orders) == 2


async def test_unloading_waits_for_who_uses_it_and_refuses_newcomers():
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        lease = await acquire(site.fleet)
        await site.set(changed(row(), wants_loaded=False))
        await site.until_state(DRAINING)
        with pytest.raises(ServiceUnavailable) as refused:
            await acquire(site.fleet)
        assert refused.value.retry_after_s
        assert site.loader.engine().is_alive
        lease.release()
        await site.until_state(UNLOADED)
        assert not site.is_held()
        with pytest.raises(ServiceUnavailable, match="is not loaded"):
            await acquire(site.fleet)


async def test_after_the_grace_the_rest_is_ended():
    async with ScriptedFleet(row(), drain_grace_s=0.02) as site:
        await site.until_state(READY)
        lease = await acquire(site.fleet)
        await site.set(changed(row(), wants_loaded=False))
        await site.until_state(UNLOADED)
        assert not site.is_held()
        lease.release()


async def test_a_change_of_what_it_is_made_of_loads_it_again_and_no_other():
    rows = row(1), row(2)
    async with ScriptedFleet(*rows) as site:
        await site.until_state(READY, 1)
        await site.until_state(READY, 2)
        other, lease = site.loader.engine(2), await acquire(site.fleet)
        site.loader.gate.clear()
        await site.set(changed(rows[0], engine={"lanes": 2}), rows[1])
        await site.until_state(DRAINING)
        lease.release()
        await site.until_state(LOADING)
        (await acquire(site.fleet, 2)).release()
        site.loader.gate.set()
        await site.until_state(READY)
        assert [order.settings.row_id for order in site.loader.orders] == [1, 2, 1]
        assert site.loader.orders[-1].settings.engine == {"lanes": 2}
        assert site.loader.engine(2) is other and other.is_alive


async def test_a_change_of_all_else_is_taken_over_at_once_for_newcomers():
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        before = await acquire(site.fleet)
        await site.set(changed(row(), id="new", aliases=("old", "m1"), chat_defaults={"x": 1}))
        after = await site.fleet.acquire("m1", ADA, limit_s=None)
        assert after.model.description.id == after.model.settings.id == "new"
        assert before.model.description.id == "m1"
        assert len(site.loader.orders) == 1
        for lease in (before, after):
            lease.release()


async def test_rows_that_do_not_change_never_touch_the_engine():
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        loaded = site.fleet.loaded()[0]
        served = loaded.served
        for _ in range(3):
            site.fleet.refresh()
            await asyncio.sleep(0.01)
        assert site.fleet.loaded() == [loaded] and loaded.served is served


async def test_a_model_that_is_unloaded_while_it_loads_is_freed_once_it_is_there():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.gate.clear()
        waiting = asyncio.ensure_future(acquire(site.fleet))
        await site.until_state(LOADING)
        await site.set(changed(on_demand(), wants_loaded=False))
        with pytest.raises(ServiceUnavailable, match="is not loaded"):
            await waiting
        site.loader.gate.set()
        await site.until_state(UNLOADED)
        assert not site.is_held()


async def test_a_row_that_changes_while_it_loads_is_loaded_again_before_anybody_has_it():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.gate.clear()
        waiting = asyncio.ensure_future(acquire(site.fleet))
        await site.until_state(LOADING)
        await site.set(changed(on_demand(), source="new.gguf"))
        site.loader.gate.set()
        with await waiting as lease:
            assert lease.model.settings.source == "new.gguf"
        assert [order.settings.source for order in site.loader.orders] == ["m1.gguf", "new.gguf"]


async def test_a_change_while_it_drains_is_what_is_loaded_next():
    async with ScriptedFleet(row()) as site:
        await site.until_state(READY)
        lease = await acquire(site.fleet)
        await site.set(changed(row(), wants_loaded=False))
        await site.until_state(DRAINING)
        await site.set(replace(row(), revision=3, source="new.gguf"))
        assert site.model().state is DRAINING
        lease.release()
        await site.until_state(READY)
        assert [order.settings.source for order in site.loader.orders] == ["m1.gguf", "new.gguf"]


async def test_a_removed_model_is_drained_and_unknown_at_once():
    async with ScriptedFleet(row(1), row(2)) as site:
        await site.until_state(READY, 1)
        lease = await acquire(site.fleet)
        await site.set(row(2))
        with pytest.raises(ModelNotFound):
            await acquire(site.fleet)
        assert site.is_held()
        lease.release()
        await until(lambda: not site.is_held())
        # And back again, as another model of that row.
        await site.set(row(2), row(1, revision=2))
        await site.until_state(READY)


async def test_a_failed_load_says_why_and_is_tried_again_with_growing_pauses():
    async with ScriptedFleet(row()) as site:
        site.loader.failures[1] = [ModelLoadError("no such file"), ModelLoadError("no such file")]
        await site.until_state(FAILED)
        (status,) = site.fleet.statuses()
        assert (status.state, status.cause) == (FAILED, "no such file")
        with pytest.raises(ServiceUnavailable, match="could not be loaded") as refused:
            await acquire(site.fleet)
        assert refused.value.retry_after_s == 2
        assert "no such file" not in str(refused.value)
        await asyncio.sleep(0.02)
        assert len(site.loader.orders) == 1
        site.clock.advance(2.0)
        site.fleet.refresh()
        await until(lambda: len(site.loader.orders) == 2)
        await site.until_state(FAILED)
        site.clock.advance(3.9)
        site.fleet.refresh()
        await asyncio.sleep(0.02)
        assert len(site.loader.orders) == 2
        site.clock.advance(0.1)
        site.fleet.refresh()
        await site.until_state(READY)
        assert site.fleet.statuses()[0].cause == ""


async def test_a_failed_model_whose_row_changes_is_tried_at_once():
    async with ScriptedFleet(row()) as site:
        site.loader.failures[1] = [ModelLoadError("no such file")]
        await site.until_state(FAILED)
        await site.set(changed(row(), source="right.gguf"))
        await site.until_state(READY)


async def test_a_failed_load_on_demand_is_told_to_all_who_wait_and_the_next_one_tries_again():
    async with ScriptedFleet(on_demand()) as site:
        await site.until_state(UNLOADED)
        site.loader.failures[1] = [RuntimeError("an odd fault")]
        asking = [asyncio.ensure_future(acquire(site.fleet)) for _ in range(3)]
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(one, ServiceUnavailable) for one in outcomes)
        assert site.fleet.statuses()[0].cause == "an unexpected fault (see the log)"
        with pytest.raises(ServiceUnavailable, match="could not be loaded"):
            await acquire(site.fleet)
        site.clock.advance(2.0)
        (await acquire(site.fleet)).release()


async def test_a_failed_model_that_is_wanted_no_more_is_simply_unloaded():
    async with ScriptedFleet(row()) as site:
        site.loader.failures[1] = [ModelLoadError("no such file")]
        await site.until_state(FAILED)
        await site.set(changed(row(), wants_loaded=False))
        await site.until_state(UNLOADED)
        assert site.fleet.statuses()[0].cause == ""


async def test_idle_models_on_demand_make_room_the_least_recently_used_first():
    rows = on_demand(1), on_demand(2), row(3), on_demand(4)
    async with ScriptedFleet(*rows) as site:
        await site.until_state(READY, 3)
        for number in (1, 2):
            site.clock.advance(1.0)
            (await acquire(site.fleet, number)).release()
        site.clock.advance(1.0)
        (await acquire(site.fleet, 1)).release()
        site.loader.failures[4] = [ModelDoesNotFit("too large")]
        (await acquire(site.fleet, 4)).release()
        assert [site.model(number).state for number in (1, 2, 3, 4)] == [READY, UNLOADED, READY, READY]
        # It was asked how much others have, and there were others.
        assert site.loader.orders[0].others_bytes is None
        assert site.loader.orders[-1].others_bytes == 0


async def test_where_nothing_makes_room_the_model_fails_and_nobody_else():
    async with ScriptedFleet(on_demand(1), row(2), on_demand(3)) as site:
        await site.until_state(READY, 2)
        in_use = await acquire(site.fleet, 1)
        site.loader.failures[3] = [ModelDoesNotFit("too large")]
        with pytest.raises(ServiceUnavailable, match="could not be loaded"):
            await acquire(site.fleet, 3)
        assert (site.model(3).state, site.model(3).cause) == (FAILED, "too large")
        assert [site.model(number).state for number in (1, 2)] == [READY, READY]
        in_use.release()


async def test_loads_go_one_after_the_other():
    async with ScriptedFleet(*[row(number) for number in range(1, 6)]) as site:
        for number in range(1, 6):
            await site.until_state(READY, number)
        assert site.loader.most_loading == 1


async def test_who_may_not_use_a_model_is_told_that_there_is_none():
    closed = ModelAccess(is_open=False)
    for_team = ModelAccess(is_open=False, team_ids=frozenset({3}))
    async with ScriptedFleet(row(1, access=closed), row(2, access=for_team, aliases=("x",))) as site:
        await site.until_state(READY, 2)
        for name in ("m1", "m3", "m1@main"):
            with pytest.raises(ModelNotFound):
                await site.fleet.acquire(name, ADA, limit_s=None)
        for name in ("m2", "x", "m2@main", None):
            (await site.fleet.acquire(name, ADA, limit_s=None)).release()
        assert [model.id for model in site.fleet.listed(ADA)] == ["m2"]
        await site.set(row(1, access=closed), changed(row(2), access=closed))
        with pytest.raises(ModelNotFound):
            await site.fleet.acquire("m2", ADA, limit_s=None)


async def test_a_service_that_ends_refuses_and_answers_who_waits():
    async with ScriptedFleet(on_demand(1), row(2)) as site:
        await site.until_state(READY, 2)
        site.loader.gate.clear()
        waiting = asyncio.ensure_future(acquire(site.fleet, 1))
        await site.until_state(LOADING, 1)
        error = ServiceUnavailable("The service is shutting down.")
        site.fleet.begin_drain(error)
        for row_id in (1, 2):
            with pytest.raises(ServiceUnavailable, match="shutting down"):
                await acquire(site.fleet, row_id)
        with pytest.raises(ServiceUnavailable, match="shutting down"):
            await waiting
        assert site.loader.engine(2).refusal is error
        site.loader.gate.set()
        await site.until_state(READY, 1)
        assert site.loader.engine(1).refusal is error
    assert not site.is_held(1) and not site.is_held(2)
