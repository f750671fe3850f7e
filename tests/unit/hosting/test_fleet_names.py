"""What a name means is what it meant when the request came, however long its model takes to load."""

from __future__ import annotations

import asyncio

import pytest

from inference.domain.adapters import AdapterSettings
from inference.domain.errors import ModelNotFound
from inference.domain.model_settings import ModelState
from inference.hosting.lease import ModelLease
from tests.scripted_fleet import ADA, ScriptedFleet, changed, on_demand, until

POLITE = AdapterSettings(name="polite", source="polite.gguf")
FIRST = on_demand(1, aliases=("fast",), adapters=(POLITE,))


async def waiting(site: ScriptedFleet, name: str) -> asyncio.Task[ModelLease]:
    """A request for a model whose load the test lets through."""
    site.loader.gate.clear()
    task = asyncio.create_task(site.fleet.acquire(name, ADA, limit_s=None))
    await site.until_state(ModelState.LOADING)
    return task


@pytest.mark.parametrize("has_adapter", [True, False], ids=["with such an adapter", "without"])
async def test_an_alias_that_moves_while_a_request_waits_leaves_it_its_model_and_adapter(has_adapter: bool):
    second = on_demand(2, aliases=("fast",), adapters=(POLITE,) if has_adapter else ())
    async with ScriptedFleet(FIRST) as site:
        await until(lambda: site.fleet.rows)
        task = await waiting(site, "fast:polite")
        await site.set(changed(FIRST, aliases=()), second)
        site.loader.gate.set()
        with await task as lease:
            assert lease.model.settings.row_id == 1
            assert (lease.model.description.id, lease.model.adapter) == ("m1:polite", "polite")
        assert 2 not in site.loader.engines


async def test_a_name_that_becomes_another_models_own_id_is_still_the_adapter_for_whoever_waits():
    async with ScriptedFleet(FIRST) as site:
        await until(lambda: site.fleet.rows)
        task = await waiting(site, "m1:polite")
        await site.set(FIRST, on_demand(2, id="m1:polite"))
        site.loader.gate.set()
        with await task as lease:
            assert (lease.model.settings.row_id, lease.model.adapter) == (1, "polite")


async def test_an_adapter_that_goes_while_a_request_waits_is_not_found_and_the_lease_given_back():
    async with ScriptedFleet(FIRST) as site:
        await until(lambda: site.fleet.rows)
        task = await waiting(site, "m1:polite")
        await site.set(changed(FIRST, adapters=()))
        site.loader.gate.set()
        with pytest.raises(ModelNotFound, match="m1:polite"):
            await task
        assert site.fleet.statuses()[0].num_running == 0
