"""Rows that change, requests that come and go, loads that fail, engines that die: in any order.

The invariant: a model never has two engines, a lease is released exactly once and no model is freed under
one unless its grace is over, everything is freed at the end, and a model that is wanted is there once
nothing stands in its way.
"""

from __future__ import annotations

import asyncio
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.domain.errors import ModelNotFound, ServiceUnavailable
from inference.domain.model_settings import LoadPolicy, ModelSettings, ModelState
from inference.engine.load_error import ModelDoesNotFit, ModelLoadError
from inference.hosting.lease import ModelLease
from inference.hosting.standing import Standing, standing_of
from tests.scripted_fleet import ADA, ScriptedFleet, changed, row

ROW_IDS = (1, 2, 3)
row_ids = st.sampled_from(ROW_IDS)


class FleetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.rows: dict[int, ModelSettings] = {}
        self.asking: list[asyncio.Task[ModelLease]] = []
        self.leases: list[ModelLease] = []
        self.is_ended = False
        self.site = self.run(self._make())

    async def _make(self) -> ScriptedFleet:
        site = ScriptedFleet(drain_grace_s=3600.0)
        return await site.__aenter__()

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    async def _settle(self) -> None:
        """Let everything happen that can; loads make their prompts on a thread."""
        for _ in range(3):
            self.site.fleet.refresh()
            for _ in range(20):
                await asyncio.sleep(0)
            await asyncio.sleep(0.002)

    def settle(self) -> None:
        self.run(self._settle())
        for task in [task for task in self.asking if task.done()]:
            self.asking.remove(task)
            if task.cancelled():
                continue
            error = task.exception()
            if error is None:
                self.leases.append(task.result())
            else:
                assert isinstance(error, (ServiceUnavailable, ModelNotFound)), error
                assert isinstance(error, ModelNotFound) or error.retry_after_s

    # -- what may happen --------------------------------------------------------------------------

    @rule(
        row_id=row_ids,
        policy=st.sampled_from(LoadPolicy),
        wants_loaded=st.sampled_from([None, True, False]),
        source=st.sampled_from(["a.gguf", "b.gguf"]),
        aliases=st.sampled_from([(), ("x",)]),
        idle_unload_s=st.sampled_from([0.0, 30.0]),
    )
    def change_row(self, row_id: int, **fields: Any) -> None:
        fields["load_policy"] = fields.pop("policy")
        old = self.rows.get(row_id)
        self.rows[row_id] = row(row_id, **fields) if old is None else changed(old, **fields)
        self._write()

    @rule(row_id=row_ids)
    def remove_row(self, row_id: int) -> None:
        self.rows.pop(row_id, None)
        self._write()

    def _write(self) -> None:
        self.site.store.rows = tuple(self.rows.values())
        self.site.fleet.refresh()

    @rule(row_id=row_ids, limit_s=st.sampled_from([None, 0.001]))
    def ask(self, row_id: int, limit_s: float | None) -> None:
        async def ask() -> ModelLease:
            return await self.site.fleet.acquire(f"m{row_id}", ADA, limit_s=limit_s)

        self.asking.append(self.loop.create_task(ask()))

    @precondition(lambda self: self.asking)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.asking)).cancel()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), times=st.integers(1, 2))
    def release(self, data: st.DataObject, times: int) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        for _ in range(times):
            lease.release()
        self.leases.remove(lease)

    @rule(row_id=row_ids, does_not_fit=st.booleans())
    def let_next_load_fail(self, row_id: int, does_not_fit: bool) -> None:
        kind = ModelDoesNotFit if does_not_fit else ModelLoadError
        self.site.loader.failures.setdefault(row_id, []).append(kind("made up by the test"))

    @rule(is_open=st.booleans())
    def gate(self, is_open: bool) -> None:
        if is_open:
            self.site.loader.gate.set()
        else:
            self.site.loader.gate.clear()

    @rule(row_id=row_ids)
    def die(self, row_id: int) -> None:
        if self.site.is_held(row_id) and self.site.loader.engines.get(row_id):
            self.site.loader.engine(row_id).is_alive = False
        self.run(self._watch())

    async def _watch(self) -> None:
        self.site.fleet.watch()

    @rule(seconds=st.sampled_from([1.0, 30.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.site.clock.advance(seconds)

    @rule()
    def look(self) -> None:
        self.settle()

    # -- what must hold ---------------------------------------------------------------------------

    @invariant()
    def no_model_goes_under_a_lease(self) -> None:
        held = {lease.model.settings.row_id for lease in self.leases}
        for row_id in held:
            engine = self.site.loader.engine(row_id)
            # Two engines of one model at once are refused by the loader itself.
            assert self.site.is_held(row_id) or not engine.is_alive

    @invariant()
    def books_agree(self) -> None:
        for loaded in self.site.fleet.loaded():
            loaded.leases.check_integrity()

    def teardown(self) -> None:
        try:
            self._come_to_rest()
        finally:
            self.run(self.site.__aexit__())
            for row_id in ROW_IDS:
                assert not self.site.is_held(row_id)
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def _come_to_rest(self) -> None:
        """With nothing in the way, what is wanted is there and what is not wanted is not."""
        self.site.loader.gate.set()
        self.site.loader.failures.clear()
        for task in self.asking:
            task.cancel()
        for lease in self.leases:
            lease.release()
        self.leases.clear()
        self._write()
        for _ in range(6):
            self.settle()
            self.run(self._watch())
            self.site.clock.advance(400.0)
        self.settle()
        for lease in self.leases:
            lease.release()
        for settings_ in self.rows.values():
            model = self.site.model(settings_.row_id)
            if self.site.fleet.condition().is_lost:
                break
            match standing_of(settings_):
                case Standing.LOADED:
                    assert model.state is ModelState.READY, model.state
                case Standing.UNLOADED:
                    assert model.state is ModelState.UNLOADED, model.state
                case Standing.ON_DEMAND:
                    assert model.state in (ModelState.READY, ModelState.UNLOADED, ModelState.FAILED)
        assert all(not loaded.leases.num_held for loaded in self.site.fleet.loaded())


FleetMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
TestFleet = FleetMachine.TestCase
