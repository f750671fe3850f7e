"""No set of LoRA adapters starves, whatever comes, in whatever order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.adapters import AdapterSet
from inference.engine.adapter_turns import MAX_SLICE_STEPS
from tests.unit.engine.scripted_engine_parts import Engine
from tests.unit.engine.test_adapter_turns import SETS, submit


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_no_set_waits_longer_than_one_slice_of_each_other_one(data: st.DataObject) -> None:
    engine = Engine(num_lanes=6)
    waited: dict[AdapterSet, int] = {}
    num_requests = 0
    for _ in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(0, 3))):
            num_requests += 1
            max_tokens = data.draw(st.sampled_from([1, 5, 70]))
            submit(engine, f"r{num_requests}", data.draw(st.sampled_from(SETS)), max_tokens=max_tokens)
        for _ in range(data.draw(st.integers(1, 60))):
            num_before = len(engine.runner.plans)
            engine.core.step()
            running = {one.adapters for one in engine.core._scheduler.running()}
            served = {plan.adapters for plan in engine.runner.plans[num_before:]}
            waited = {one: 0 if one in served else waited.get(one, 0) + 1 for one in running}
            assert max(waited.values(), default=0) <= (len(SETS) - 1) * MAX_SLICE_STEPS + 1
    engine.run(max_steps=20_000)
    engine.check_all_free()
