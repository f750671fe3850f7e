"""Drafts in the engine's core: the same answers in fewer steps, and nothing left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.domain.adapters import AppliedAdapter, adapter_namespace
from inference.domain.backend import HoldReason
from inference.domain.errors import GenerationFailed
from inference.domain.events import Failed, Finished, FinishReason, TokenBatch
from inference.domain.requests import GenerationRequest
from inference.domain.signals import SignalRequest, SignalRule
from inference.engine.drafting.speculation import MAX_DECODING, PAUSE_STEPS
from inference.engine.plan import NOTHING_DRAWN, StepOutcome, StepPlan
from tests.unit.engine.scripted_engine_parts import END_TOKEN, Engine, RecordingSink, make_request


def engine(**config: float) -> Engine:
    """Answers repeat themselves every four tokens. Nothing takes any time, so every draft pays."""
    made = Engine(**config)  # type: ignore[arg-type]
    made.runner.draw = lambda request, index: 100 + index % 4
    return made


def drafting(name: str = "a", *, max_tokens: int = 40, max_draft_tokens: int = 8) -> GenerationRequest:
    return make_request(name, max_tokens=max_tokens, max_draft_tokens=max_draft_tokens)


def reason_of(sink: RecordingSink) -> FinishReason:
    (ending,) = sink.endings
    assert isinstance(ending, Finished)
    return ending.reason


def num_drafts(plans: list[StepPlan]) -> int:
    return sum(len(one.token_ids) for plan in plans for one in plan.drafted)


def test_a_repeating_answer_takes_far_fewer_steps_and_is_the_same() -> None:
    plain, guessed = engine(), engine()
    expected = plain.submit(make_request("a", max_tokens=40))
    sink = guessed.submit(drafting())
    num_steps = guessed.run()
    assert num_steps < plain.run() / 2
    assert sink.token_ids == expected.token_ids
    assert reason_of(sink) is FinishReason.LENGTH
    assert guessed.admission.grants[0].num_output_tokens == 40
    guessed.check_all_free()


def test_what_was_drafted_and_accepted_is_counted_once_for_all_who_ask() -> None:
    made = engine()
    sink = made.submit(drafting())
    made.run()
    batches = [event for event in sink.events if isinstance(event, TokenBatch)]
    statistics = made.core.statistics(is_alive=True)
    assert sum(batch.num_drafted for batch in batches) == num_drafts(made.runner.plans) > 0
    assert statistics.total_drafted_tokens == num_drafts(made.runner.plans)
    assert statistics.total_accepted_tokens == sum(batch.num_accepted for batch in batches) > 20
    assert statistics.total_generated_tokens == 40


def test_wrong_guesses_are_taken_back_and_leave_no_cell() -> None:
    made = engine()
    made.runner.draw = lambda request, index: 100 + (index if index % 9 == 8 else index % 4)
    sink = made.submit(drafting(max_tokens=60))
    while made.core.step():
        made.check()
    assert sink.token_ids == [made.runner.draw(made.submissions["a"].request, index) for index in range(60)]
    statistics = made.core.statistics(is_alive=True)
    assert 0 < statistics.total_accepted_tokens < statistics.total_drafted_tokens
    made.check_all_free()


@pytest.mark.parametrize("max_tokens", range(1, 24))
def test_no_draft_goes_beyond_what_may_be_generated(max_tokens: int) -> None:
    made = engine()
    sink = made.submit(drafting(max_tokens=max_tokens))
    made.run()
    assert sink.token_ids == [100 + index % 4 for index in range(max_tokens)]
    for plan in made.runner.plans:
        assert plan.num_tokens <= max(3, max_tokens)
    made.check_all_free()


@pytest.mark.parametrize("stops_at", range(8, 22))
def test_the_end_of_an_answer_inside_a_draft_ends_it_there(stops_at: int) -> None:
    made = engine(has_prefix_cache=True, min_cached_tokens=1)
    made.runner.draw = lambda request, index: END_TOKEN if index == stops_at else 100 + index % 4
    sink = made.submit(drafting())
    made.run()
    assert sink.token_ids == [100 + index % 4 for index in range(stops_at)]
    assert reason_of(sink) is FinishReason.STOP
    made.check_all_free()


def test_no_end_of_an_answer_is_ever_guessed() -> None:
    made = engine()
    request = replace(drafting(), prompt_token_ids=(100, 101, 102, 103, END_TOKEN, 7))
    made.submit(request)
    made.run()
    guesses = [token for plan in made.runner.plans for one in plan.drafted for token in one.token_ids]
    assert guesses
    assert END_TOKEN not in guesses


def test_forced_tokens_come_instead_of_what_was_guessed() -> None:
    made = engine()
    made.runner.force = lambda request, index: 3 if index % 10 == 9 else 0
    sink = made.submit(drafting(max_tokens=50))
    while made.core.step():
        made.check()
    assert sink.token_ids == [100 + index % 4 for index in range(50)]
    assert num_drafts(made.runner.plans) > 0
    made.check_all_free()


def test_a_constraint_that_is_complete_inside_a_draft_ends_the_answer() -> None:
    made = engine()
    made.runner.ends = lambda request, num_drawn: num_drawn == 18
    sink = made.submit(drafting())
    made.run()
    assert len(sink.token_ids) == 18
    assert reason_of(sink) is FinishReason.STOP
    made.check_all_free()


def test_a_token_that_cannot_be_drawn_inside_a_draft_fails_only_its_sequence() -> None:
    made = engine()
    made.runner.draw = lambda request, index: (
        NOTHING_DRAWN if request.request_id == "a" and index == 15 else 100 + index % 4
    )
    broken, whole = made.submit(drafting("a")), made.submit(drafting("b"))
    made.run()
    (ending,) = broken.endings
    assert isinstance(ending, Failed)
    assert isinstance(ending.error, GenerationFailed)
    assert broken.token_ids == [100 + index % 4 for index in range(15)]
    assert len(whole.token_ids) == 40
    made.check_all_free()


def test_others_decode_beside_drafts_as_ever() -> None:
    made = engine()
    sinks = [
        made.submit(drafting("a")),
        made.submit(make_request("b", max_tokens=30)),
        made.submit(drafting("c")),
    ]
    while made.core.step():
        made.check()
    for sink in sinks:
        assert sink.token_ids == [100 + index % 4 for index in range(len(sink.token_ids))]
        assert reason_of(sink) is FinishReason.LENGTH
    mixed = [plan for plan in made.runner.plans if plan.drafted and plan.decoding]
    assert mixed
    made.check_all_free()


def test_nothing_is_guessed_beside_prompts() -> None:
    made = engine(min_prefill_tokens=32, max_prefill_tokens_beside_decodes=32)
    made.submit(drafting("a", max_tokens=100))
    for _ in range(6):
        made.core.step()
    made.submit(make_request("b", prompt=400, max_tokens=2))
    made.run()
    assert not [plan for plan in made.runner.plans if plan.drafted and plan.prefills]
    assert num_drafts(made.runner.plans) > 0


def test_in_a_busy_batch_nothing_is_guessed() -> None:
    made = engine(num_lanes=MAX_DECODING + 1)
    for number in range(MAX_DECODING + 1):
        made.submit(drafting(f"r{number}", max_tokens=20))
    made.run()
    assert num_drafts([plan for plan in made.runner.plans if len(plan.sequences) > MAX_DECODING]) == 0
    made.check_all_free()


def test_while_a_hook_listens_each_token_has_a_step_of_its_own() -> None:
    made = engine()
    signals = SignalRequest(wants_first_token=False, rules=(SignalRule(window_tokens=4),))
    made.submit(replace(drafting(), signals=signals))
    for _ in range(60):
        made.core.step()
        made.resume("a", HoldReason.HOOK)
    assert num_drafts(made.runner.plans) == 0


def test_a_hook_that_only_wants_the_first_token_stops_no_drafts_behind_it() -> None:
    made = engine()
    sink = made.submit(replace(drafting(), signals=SignalRequest(wants_first_token=True, rules=())))
    for _ in range(60):
        made.core.step()
        made.resume("a", HoldReason.HOOK)
    assert len(sink.token_ids) == 40
    assert num_drafts(made.runner.plans) > 0


def test_a_memory_that_cannot_be_removed_in_part_is_never_guessed_for() -> None:
    made = engine()
    made.runner.can_share_prefixes = False
    made.core = type(made.core)(made.runner, made.config, made.admission, made.clock, made._deliver)
    sink = made.submit(drafting())
    made.run()
    assert len(sink.token_ids) == 40
    assert num_drafts(made.runner.plans) == 0


def test_where_cells_are_short_nothing_is_guessed_and_nobody_gives_way() -> None:
    made = engine(num_cells=120, resume_headroom_tokens=20)
    sinks = [made.submit(drafting(name, max_tokens=45)) for name in ("a", "b")]
    while made.core.step():
        made.check()
    assert made.core.statistics(is_alive=True).total_preemptions == 0
    assert all(len(sink.token_ids) == 45 for sink in sinks)
    crowded = [
        plan
        for plan in made.runner.plans
        if plan.drafted and sum(one.num_computed for one in plan.sequences) > 100
    ]
    assert not crowded


def test_cells_that_run_out_because_of_drafts_cost_the_drafts_only() -> None:
    made = engine()
    sink = made.submit(drafting(max_tokens=200))
    while not num_drafts(made.runner.plans):
        made.core.step()
    num_plans = len(made.runner.plans)
    made.runner.outcomes.append(StepOutcome.NO_CELLS)
    made.core.step()
    assert made.runner.plans[-1].drafted
    for _ in range(PAUSE_STEPS):
        made.core.step()
    assert num_drafts(made.runner.plans[num_plans + 1 :]) == 0
    made.run()
    assert num_drafts(made.runner.plans[num_plans + 1 :]) > 0
    assert sink.token_ids == [100 + index % 4 for index in range(200)]
    assert made.core.statistics(is_alive=True).total_preemptions == 0
    made.check_all_free()


@pytest.mark.parametrize("outcome", [StepOutcome.ABORTED, StepOutcome.FAILED, OSError("gone")])
@pytest.mark.parametrize("num_rows", [0, 1, 3])
def test_a_step_with_drafts_that_goes_wrong_is_made_good(
    outcome: StepOutcome | Exception, num_rows: int
) -> None:
    made = engine()
    sinks = [made.submit(drafting(name)) for name in ("a", "b")]
    while not num_drafts(made.runner.plans):
        made.core.step()
    made.runner.num_rows_before_trouble = num_rows
    made.runner.outcomes.append(outcome)
    made.core.step()
    made.check()
    made.run()
    for sink in sinks:
        assert sink.token_ids == [100 + index % 4 for index in range(40)]
    made.check_all_free()


def test_drafts_end_with_their_sequence_whatever_ends_it() -> None:
    made = engine()
    made.submit(drafting("a", max_tokens=100))
    held = made.submit(drafting("b", max_tokens=100))
    while not num_drafts(made.runner.plans):
        made.core.step()
    made.cancel("a")
    made.hold("b")
    made.core.step()
    made.check()
    made.resume("b")
    made.run()
    assert held.token_ids == [100 + index % 4 for index in range(100)]
    assert not made.core._speculation.members
    made.check_all_free()


def test_a_step_with_drafts_has_the_adapters_of_its_sequences() -> None:
    made = engine()
    adapters = (AppliedAdapter("a", 1.0),)
    namespace = adapter_namespace(adapters)
    sink = made.submit(replace(drafting(), adapters=adapters, cache_namespace=namespace))
    made.run()
    drafted = [plan for plan in made.runner.plans if plan.drafted]
    assert drafted
    assert all(plan.adapters == adapters for plan in drafted)
    assert sink.token_ids == [100 + index % 4 for index in range(40)]
