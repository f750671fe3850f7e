from __future__ import annotations

import pytest

from inference.domain.errors import ContextLengthExceeded, GenerationFailed, ServiceUnavailable
from inference.domain.events import Failed, Finished, FinishReason, Started, TokenBatch
from inference.engine.plan import NOTHING_DRAWN, StepOutcome
from tests.unit.engine.scripted_engine_parts import END_TOKEN, Engine, make_request


def only_ending(events: list[object]) -> object:
    endings = [event for event in events if isinstance(event, Finished | Failed)]
    assert len(endings) == 1
    assert events[-1] is endings[0]
    return endings[0]


def test_a_request_is_started_generates_and_ends_by_length() -> None:
    engine = Engine()
    sink = engine.submit(make_request(prompt=3, max_tokens=4))
    engine.run()
    assert isinstance(sink.events[0], Started)
    assert sink.token_ids == [100, 101, 102, 103]
    assert sink.events[-1] == Finished(FinishReason.LENGTH, engine.clock.now_s)
    engine.check_all_free()


def test_an_end_token_stops_and_is_not_shown() -> None:
    engine = Engine()
    engine.runner.draw = lambda request, index: END_TOKEN if index == 2 else 100 + index
    sink = engine.submit(make_request(max_tokens=10))
    engine.run()
    assert sink.token_ids == [100, 101]
    ending = only_ending(sink.events)
    assert isinstance(ending, Finished)
    assert ending.reason is FinishReason.STOP
    engine.check_all_free()


def test_an_end_token_first_gives_an_empty_answer() -> None:
    engine = Engine()
    engine.runner.draw = lambda request, index: END_TOKEN
    sink = engine.submit(make_request())
    engine.run()
    assert [type(event) for event in sink.events] == [Started, Finished]


def test_events_of_a_step_are_delivered_at_once() -> None:
    engine = Engine(num_lanes=4)
    for name in "abcd":
        engine.submit(make_request(name, max_tokens=3))
    engine.core.step()
    started, first = engine.deliveries
    assert [type(event) for _, event in started] == [Started] * 4
    assert [type(event) for _, event in first] == [TokenBatch] * 4
    engine.core.step()
    assert len(engine.deliveries) == 3


def test_more_requests_than_lanes_take_turns() -> None:
    engine = Engine(num_lanes=2)
    sinks = [engine.submit(make_request(f"r{index}", max_tokens=2 + index % 3)) for index in range(7)]
    engine.run()
    assert [len(sink.token_ids) for sink in sinks] == [2 + index % 3 for index in range(7)]
    assert max(len(plan.sequences) for plan in engine.runner.plans) == 2
    engine.check_all_free()


def test_a_freed_lane_is_taken_in_the_next_step() -> None:
    engine = Engine(num_lanes=1)
    first, second = (
        engine.submit(make_request("a", max_tokens=1)),
        engine.submit(make_request("b", max_tokens=1)),
    )
    engine.core.step()
    assert first.endings
    assert not second.events
    engine.core.step()
    assert second.endings


def test_decodes_go_on_while_a_long_prompt_arrives() -> None:
    engine = Engine(max_prefill_tokens_beside_decodes=32)
    stream = engine.submit(make_request("stream", max_tokens=40))
    engine.core.step()
    engine.submit(make_request("long", prompt=600, max_tokens=1))
    for step in range(10):
        engine.core.step()
        assert len(stream.token_ids) == 2 + step
        assert engine.runner.plans[-1].num_prefill_tokens <= 32


def test_the_pace_of_prefill_follows_what_it_costs() -> None:
    engine = Engine(num_cells=100_000, target_step_s=0.2)
    engine.runner.token_s = 0.002
    engine.submit(make_request("long", prompt=3000, max_tokens=1))
    for _ in range(6):
        engine.core.step()
    assert engine.runner.plans[-1].num_tokens == 100


# -- cancel -------------------------------------------------------------------------------------


def test_cancel_while_prefilling_frees_within_a_step() -> None:
    engine = Engine()
    sink = engine.submit(make_request("long", prompt=2000))
    engine.core.step()
    assert engine.runner.num_used_cells > 0
    engine.cancel("long")
    assert not engine.core.step()
    assert not sink.endings
    engine.check_all_free()


def test_cancel_while_decoding_frees_within_a_step_and_spares_others() -> None:
    engine = Engine()
    gone, stays = (
        engine.submit(make_request("gone", max_tokens=50)),
        engine.submit(make_request("stays", max_tokens=8)),
    )
    engine.core.step()
    engine.core.step()
    engine.cancel("gone")
    engine.core.step()
    assert len(gone.token_ids) == 2
    engine.run()
    assert len(stays.token_ids) == 8
    assert not gone.endings
    engine.check_all_free()


def test_cancel_of_a_preempted_sequence() -> None:
    engine = Engine(num_cells=300)
    engine.submit(make_request("a", prompt=150, max_tokens=100))
    engine.submit(make_request("b", prompt=140, max_tokens=100))
    while not engine.core.statistics(is_alive=True).num_preempted:
        engine.core.step()
    engine.cancel("b")
    engine.run()
    assert not engine.sinks["b"].endings
    assert len(engine.sinks["a"].token_ids) == 100
    engine.check_all_free()


def test_cancel_after_the_ending_does_nothing() -> None:
    engine = Engine()
    engine.submit(make_request("a"))
    engine.run()
    engine.cancel("a")
    engine.cancel("a")
    engine.run()
    assert engine.core.statistics(is_alive=True).total_cancelled_sequences == 0
    engine.check_all_free()


def test_cancel_and_a_new_request_for_the_same_lane_in_one_step() -> None:
    engine = Engine(num_lanes=1)
    engine.submit(make_request("a", max_tokens=50))
    engine.core.step()
    engine.cancel("a")
    after = engine.submit(make_request("b", prompt=2, max_tokens=2))
    engine.core.step()
    assert after.token_ids == [100]
    engine.run()
    engine.check_all_free()


# -- constraints --------------------------------------------------------------------------------


def test_forced_tokens_are_told_at_once_and_computed_in_one_go() -> None:
    engine = Engine(num_lanes=2)
    engine.runner.force = lambda request, index: 4 if request.request_id == "a" and index == 1 else 0
    forced = engine.submit(make_request("a", prompt=10, max_tokens=10))
    other = engine.submit(make_request("b", prompt=10, max_tokens=10))
    engine.run()
    assert forced.token_ids == other.token_ids == [100 + index for index in range(10)]
    batches = [event for event in forced.events if isinstance(event, TokenBatch)]
    assert [len(batch.token_ids) for batch in batches] == [1, 5, 1, 1, 1, 1]
    (plan,) = [plan for plan in engine.runner.plans if [chunk.num_tokens for chunk in plan.prefills] == [5]]
    assert len(plan.decoding) == 1
    assert only_ending(forced.events) == Finished(FinishReason.LENGTH, engine.clock.now_s)
    assert engine.core.statistics(is_alive=True).total_generated_tokens == 20
    engine.check_all_free()


def test_forced_tokens_never_exceed_the_limit() -> None:
    engine = Engine()
    engine.runner.force = lambda request, index: 50
    sink = engine.submit(make_request("a", prompt=10, max_tokens=7))
    engine.run()
    assert sink.token_ids == [100 + index for index in range(7)]
    assert only_ending(sink.events) == Finished(FinishReason.LENGTH, engine.clock.now_s)
    engine.check_all_free()


@pytest.mark.parametrize("num_forced", [0, 3])
def test_an_answer_that_is_complete_ends_with_its_last_token(num_forced: int) -> None:
    engine = Engine()
    engine.runner.force = lambda request, index: num_forced if index == 6 - num_forced else 0
    engine.runner.ends = lambda request, num_drawn: num_drawn == 7
    # Also where it is the last one that was allowed.
    for max_tokens in (7, 20):
        sink = engine.submit(make_request(f"max {max_tokens}", prompt=10, max_tokens=max_tokens))
        engine.run()
        assert sink.token_ids == [100 + index for index in range(7)]
        assert only_ending(sink.events) == Finished(FinishReason.STOP, engine.clock.now_s)
    engine.check_all_free()


def test_forced_tokens_survive_preemption_holds_and_cancels() -> None:
    engine = Engine(num_cells=300, num_lanes=3)
    engine.runner.force = lambda request, index: index % 5
    sinks = [engine.submit(make_request(name, prompt=80, max_tokens=60)) for name in "abc"]
    late = engine.submit(make_request("d", prompt=5, max_tokens=60))
    engine.run()
    for sink in (*sinks, late):
        assert sink.token_ids == [100 + index for index in range(60)]
    assert engine.core.statistics(is_alive=True).total_preemptions >= 1
    engine.check_all_free()


# -- no cells -----------------------------------------------------------------------------------


def test_the_youngest_is_preempted_and_all_finish() -> None:
    engine = Engine(num_cells=300, num_lanes=3)
    sinks = [engine.submit(make_request(name, prompt=80, max_tokens=60)) for name in "abc"]
    engine.run()
    for sink in sinks:
        assert sink.token_ids == [100 + index for index in range(60)]
        ending = only_ending(sink.events)
        assert isinstance(ending, Finished)
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.total_preemptions >= 1
    assert statistics.total_failed_sequences == 0
    engine.check_all_free()


def test_the_oldest_never_pauses() -> None:
    engine = Engine(num_cells=300, num_lanes=3)
    oldest = engine.submit(make_request("a", prompt=80, max_tokens=100))
    engine.core.step()
    for name in "bc":
        engine.submit(make_request(name, prompt=80, max_tokens=60))
    had = 1
    while not oldest.endings:
        engine.core.step()
        if engine.runner.plans[-1].decoding or engine.runner.plans[-1].prefills:
            is_refused = len(oldest.token_ids) == had
            had = len(oldest.token_ids)
            assert not is_refused or engine.core.statistics(is_alive=True).num_preempted
    engine.run()
    engine.check_all_free()


def test_nobody_new_is_let_in_while_a_preempted_one_waits() -> None:
    engine = Engine(num_cells=300, num_lanes=4)
    for name in "ab":
        engine.submit(make_request(name, prompt=120, max_tokens=60))
    while not engine.core.statistics(is_alive=True).num_preempted:
        engine.core.step()
    late = engine.submit(make_request("late", prompt=5, max_tokens=1))
    engine.core.step()
    assert not late.events
    engine.run()
    assert late.endings
    engine.check_all_free()


def test_the_last_one_that_cannot_grow_ends_by_length() -> None:
    engine = Engine(num_cells=256)
    sink = engine.submit(make_request(prompt=250, max_tokens=100))
    engine.run()
    ending = only_ending(sink.events)
    assert isinstance(ending, Finished)
    assert ending.reason is FinishReason.LENGTH
    assert len(sink.token_ids) == 7
    engine.check_all_free()


def test_a_prompt_that_can_never_fit_fails_alone() -> None:
    engine = Engine(num_cells=256)
    fits, too_long = engine.submit(make_request("a")), engine.submit(make_request("b", prompt=256))
    engine.run()
    ending = only_ending(too_long.events)
    assert isinstance(ending, Failed)
    assert isinstance(ending.error, ContextLengthExceeded)
    assert len(fits.token_ids) == 4
    engine.check_all_free()


# -- failures -----------------------------------------------------------------------------------


def test_only_the_guilty_sequence_fails() -> None:
    engine = Engine()
    engine.runner.poisoned = {"bad"}
    sinks = {name: engine.submit(make_request(name, max_tokens=5)) for name in ("a", "bad", "b")}
    engine.run()
    assert len(sinks["a"].token_ids) == len(sinks["b"].token_ids) == 5
    ending = only_ending(sinks["bad"].events)
    assert isinstance(ending, Failed)
    assert isinstance(ending.error, GenerationFailed)
    assert engine.core.statistics(is_alive=True).total_failed_steps == 1
    engine.check_all_free()


def test_an_exception_of_one_step_fails_nobody_if_it_does_not_come_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine()
    sinks = [engine.submit(make_request(name, max_tokens=5)) for name in "abc"]
    engine.core.step()
    engine.runner.outcomes.append(OSError("a secret path"))
    engine.run()
    for sink in sinks:
        assert sink.token_ids == [100, 101, 102, 103, 104]
    assert "A step with 3 tokens failed" in caplog.text
    engine.check_all_free()


def test_an_error_tells_the_caller_nothing_of_the_inside() -> None:
    engine = Engine()
    engine.runner.outcomes.extend([OSError("a secret path"), OSError("a secret path")])
    sink = engine.submit(make_request())
    engine.run()
    ending = only_ending(sink.events)
    assert isinstance(ending, Failed)
    assert "secret" not in str(ending.error)


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.ABORTED])
@pytest.mark.parametrize("num_rows", [1, 45, 120])
def test_after_a_step_that_was_applied_in_part_positions_follow_the_cells(
    outcome: StepOutcome, num_rows: int
) -> None:
    engine = Engine(num_cells=2000)
    first = engine.submit(make_request("a", prompt=90, max_tokens=5))
    second = engine.submit(make_request("b", prompt=30, max_tokens=5))
    engine.runner.num_rows_before_trouble = num_rows
    engine.runner.outcomes.extend([outcome, StepOutcome.DONE, StepOutcome.DONE, StepOutcome.DONE, outcome])
    engine.run()
    assert first.token_ids == second.token_ids == [100, 101, 102, 103, 104]
    engine.check_all_free()


@pytest.mark.parametrize("outcome", [StepOutcome.FAILED, StepOutcome.ABORTED])
def test_after_a_step_that_took_all_cells_with_it_everybody_is_computed_again(outcome: StepOutcome) -> None:
    """Also those that had no part in it, and those that were computed alone just before."""
    engine = Engine()
    engine.runner.loses_memory = True
    held = engine.submit(make_request("held", prompt=40, max_tokens=5))
    engine.core.step()
    engine.hold("held")
    sinks = [engine.submit(make_request(name, prompt=50, max_tokens=5)) for name in "abc"]
    engine.core.step()
    engine.core.step()
    engine.runner.outcomes.extend([outcome, StepOutcome.DONE, StepOutcome.DONE, outcome])
    while engine.core.step():
        engine.check()
    assert engine.core.statistics(is_alive=True).num_held == 1
    engine.resume("held")
    engine.run()
    answers = [sink.token_ids for sink in (held, *sinks)]
    # The last of those that were computed alone failed at that, and is to blame.
    num_failed = 1 if outcome is StepOutcome.FAILED else 0
    assert answers.count([100, 101, 102, 103, 104]) == 4 - num_failed
    engine.check_all_free()


def test_an_aborted_step_fails_nobody() -> None:
    engine = Engine()
    sink = engine.submit(make_request(max_tokens=3))
    engine.core.step()
    engine.runner.outcomes.append(StepOutcome.ABORTED)
    engine.core.step()
    engine.check()
    engine.run()
    assert sink.token_ids == [100, 101, 102]
    engine.check_all_free()


def test_logits_that_are_no_numbers_fail_their_sequence() -> None:
    engine = Engine()
    engine.runner.draw = lambda request, index: NOTHING_DRAWN if request.request_id == "bad" else 100
    good, bad = engine.submit(make_request("good")), engine.submit(make_request("bad"))
    engine.run()
    assert len(good.token_ids) == 4
    assert isinstance(only_ending(bad.events), Failed)
    engine.check_all_free()


@pytest.mark.parametrize("token_id", [-1, 1000, 2**40])
def test_a_token_outside_the_vocabulary_never_reaches_a_batch(token_id: int) -> None:
    engine = Engine()
    bad, good = engine.submit(make_request("bad", prompt=(10, token_id))), engine.submit(make_request("good"))
    engine.run()
    assert isinstance(only_ending(bad.events), Failed)
    assert len(good.token_ids) == 4
    engine.check_all_free()


def test_a_sequence_that_cannot_be_opened_fails_alone() -> None:
    engine = Engine()
    original = engine.runner.open

    def open_or_not(sequence_id: int, request: object) -> None:
        original(sequence_id, request)  # type: ignore[arg-type]
        if engine.runner.requests[sequence_id].request_id == "bad":
            raise ValueError("no sampler for that")

    engine.runner.open = open_or_not  # type: ignore[method-assign]
    bad, good = engine.submit(make_request("bad")), engine.submit(make_request("good"))
    engine.run()
    assert isinstance(only_ending(bad.events), Failed)
    assert len(good.token_ids) == 4
    engine.check_all_free()


def test_everything_is_given_back_even_if_freeing_cells_fails() -> None:
    engine = Engine()
    sink = engine.submit(make_request(max_tokens=1))

    def broken(sequence_id: int) -> None:
        raise OSError("the context is gone")

    engine.runner.close_sequence = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="context is gone"):
        engine.core.step()
    assert engine.admission.num_held == 0
    assert engine.core.statistics(is_alive=False).lanes.num_used == 0
    only_ending(sink.events)


# -- the end ------------------------------------------------------------------------------------


def test_abandon_answers_everybody_once() -> None:
    engine = Engine(num_lanes=2)
    sinks = [engine.submit(make_request(f"r{index}", max_tokens=50)) for index in range(4)]
    engine.core.step()
    error = ServiceUnavailable("over")
    engine.core.abandon(error, engine.admission.close(error))
    engine.core.abandon(error, [])
    for sink in sinks:
        ending = only_ending(sink.events)
        assert isinstance(ending, Failed)
        assert ending.error is error
    assert engine.admission.num_held == 0
    engine.core.check_integrity()


def test_statistics_follow_what_happens() -> None:
    engine = Engine(num_lanes=3)
    engine.submit(make_request("a", prompt=4, max_tokens=3))
    engine.core.step()
    engine.submit(make_request("b", prompt=700, max_tokens=3))
    engine.core.step()
    statistics = engine.core.statistics(is_alive=True)
    assert (statistics.num_decoding, statistics.num_prefilling) == (1, 1)
    assert statistics.lanes.num_used == 2
    assert statistics.num_cells_used == engine.runner.num_used_cells
    assert statistics.total_steps == 2
    assert statistics.total_generated_tokens == 2
    assert not statistics.is_idle
    engine.run()
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.is_idle
    assert statistics.total_prefill_tokens == 704
    assert statistics.total_generated_tokens == 6
    assert statistics.total_sequences == 2


def test_statistics_say_where_the_time_went_and_how_fast_tokens_come() -> None:
    engine = Engine()
    engine.runner.token_s = 0.1
    engine.submit(make_request(prompt=20, max_tokens=50))
    engine.run()
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.total_prefill_tokens == 20
    # 20 prompt tokens, and each generated one but the last is computed.
    assert statistics.total_phases.total_s == pytest.approx(6.9)
    assert statistics.total_phases.sample_s == pytest.approx(6.9)
    assert statistics.last_phases.total_s == pytest.approx(0.1)
    assert statistics.max_step_s == pytest.approx(2.0)
    assert statistics.recent.num_steps == statistics.total_steps
    assert statistics.recent.generated_tokens_per_s == pytest.approx(50 / 6.9)
    assert statistics.recent.prefill_tokens_per_s == pytest.approx(20 / 6.9)
    engine.clock.now_s += 60
    assert not engine.core.step()
    engine.clock.now_s += 11
    assert not engine.core.step()
    assert engine.core.statistics(is_alive=True).recent.num_steps == 0
