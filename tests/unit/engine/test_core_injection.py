"""The core with hooks that put text into running answers: what comes out, is computed, is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.domain.adapters import AppliedAdapter
from inference.domain.backend import HoldReason
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import (
    Event,
    Failed,
    Finished,
    FinishReason,
    Injected,
    Signals,
    Started,
    TokenBatch,
)
from inference.domain.injection import InjectionRefusal
from inference.domain.requests import GenerationRequest
from inference.domain.signals import SignalRequest, SignalRule
from inference.engine.plan import StepOutcome
from tests.scripted_engine import AnyConstraint
from tests.unit.engine.scripted_engine_parts import (
    CONTROL_TOKEN,
    END_TOKEN,
    LOST,
    VOCABULARY,
    Engine,
    RecordingSink,
    make_request,
    with_adapters,
    with_media,
)

FIRST = SignalRequest(rules=())
EVERY_FOURTH = SignalRequest(wants_first_token=False, rules=(SignalRule(every_tokens=4),))
HOOK = HoldReason.HOOK


def held(engine: Engine, request: GenerationRequest | None = None) -> RecordingSink:
    """A sequence that stands still for its first token."""
    sink = engine.submit(request or make_request("r", signals=FIRST))
    while not any(isinstance(event, Signals) for event in sink.events):
        engine.core.step()
    return sink


def injections(sink: RecordingSink) -> list[tuple[int, int, str]]:
    """(injected, discarded, refusal) of each."""
    events = [event for event in sink.events if isinstance(event, Injected)]
    return [(event.num_injected, event.num_discarded, event.refusal) for event in events]


def kinds(sink: RecordingSink) -> list[type[Event]]:
    return [type(event) for event in sink.events]


@pytest.mark.parametrize("num_injected", [1, 2, 5])
def test_the_token_is_thrown_away_and_the_answer_goes_on_behind_what_was_put_in(num_injected: int) -> None:
    engine = Engine()
    sink = held(engine)
    text = tuple(range(500, 500 + num_injected))
    engine.inject("r", *text)
    engine.resume("r", HOOK)
    engine.run()
    assert kinds(sink) == [Started, Signals, Injected, *[TokenBatch] * 4, Finished]
    assert injections(sink) == [(num_injected, 1, "")]
    # The runner draws what was thrown away anew; it has checked that the others were computed.
    assert sink.token_ids == [100, 101, 102, 103]
    assert engine.runner.drawn["r"] == [*text, 100, 101, 102, 103]
    statistics = engine.core.statistics(is_alive=True)
    assert (statistics.total_injected_tokens, statistics.total_discarded_tokens) == (num_injected, 1)
    assert statistics.total_prefill_tokens == 3 + (num_injected if num_injected > 1 else 0)
    assert engine.admission.grants[0].num_output_tokens == 4
    engine.check_all_free()


def test_nothing_is_told_of_the_token_before_the_hook_has_decided() -> None:
    engine = Engine()
    sink = held(engine)
    engine.run()
    assert kinds(sink) == [Started, Signals]
    engine.clock.now_s = 250.0
    engine.resume("r", HOOK)
    engine.core.step()
    # As of when it was let through: time limits and readers have waited for the hook.
    assert sink.events[2] == TokenBatch((100,), 250.0)
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    assert injections(sink) == []


def test_what_is_let_through_does_not_wait_for_the_next_batch() -> None:
    engine = Engine()
    sink = held(engine)
    engine.resume("r", HOOK)
    engine.runner.before_run = lambda plan: seen.append(len(sink.token_ids))
    seen: list[int] = []
    engine.core.step()
    assert seen == [1]


def test_several_texts_follow_each_other_and_one_token_is_thrown_away() -> None:
    engine = Engine()
    sink = held(engine)
    engine.inject("r", 500, 501)
    engine.core.step()
    engine.inject("r", 600)
    engine.resume("r", HOOK)
    engine.run()
    assert injections(sink) == [(2, 1, ""), (1, 0, "")]
    assert engine.runner.drawn["r"] == [500, 501, 600, 100, 101, 102, 103]
    engine.check_all_free()


@pytest.mark.parametrize(
    ("tokens", "refusal"),
    [
        ((), InjectionRefusal.EMPTY),
        ((500, CONTROL_TOKEN), InjectionRefusal.CONTROL_TOKEN),
        ((END_TOKEN,), InjectionRefusal.CONTROL_TOKEN),
        ((-1, 500), InjectionRefusal.CONTROL_TOKEN),
        ((VOCABULARY,), InjectionRefusal.CONTROL_TOKEN),
        (tuple([500] * 4096), InjectionRefusal.NO_ROOM),
    ],
)
def test_what_cannot_be_put_in_changes_nothing(tokens: tuple[int, ...], refusal: InjectionRefusal) -> None:
    engine = Engine()
    sink = held(engine)
    engine.inject("r", *tokens)
    engine.resume("r", HOOK)
    engine.run()
    assert injections(sink) == [(0, 0, refusal)]
    assert sink.token_ids == engine.runner.drawn["r"] == [100, 101, 102, 103]
    engine.check_all_free()


def test_a_constraint_says_what_may_follow() -> None:
    engine = Engine()
    sink = held(engine, replace(make_request("r", signals=FIRST), constraint=AnyConstraint()))
    engine.inject("r", 500)
    engine.resume("r", HOOK)
    engine.run()
    assert injections(sink) == [(0, 0, "constrained")]
    assert sink.token_ids == [100, 101, 102, 103]


def test_one_whose_constraint_ends_with_the_token_is_not_held() -> None:
    engine = Engine()
    engine.runner.ends = lambda request, num_drawn: True
    sink = engine.submit(make_request("r", signals=FIRST))
    engine.run()
    assert kinds(sink) == [Started, Signals, TokenBatch, Finished]
    engine.check_all_free()


@pytest.mark.parametrize(
    ("signals", "first_act"),
    [(None, ""), (None, "hold"), (FIRST, "resume"), (replace(FIRST, wants_hold=False), "")],
)
def test_only_one_that_stands_still_for_its_signals_takes_anything(
    signals: SignalRequest | None, first_act: str
) -> None:
    engine = Engine()
    sink = engine.submit(make_request("r", max_tokens=9, signals=signals))
    engine.core.step()
    if first_act:
        (engine.hold if first_act == "hold" else engine.resume)("r", HOOK)
    engine.inject("r", 500)
    engine.resume("r", HOOK)
    engine.run()
    assert injections(sink) == [(0, 0, "not_held")]
    assert sink.token_ids == [100 + index for index in range(9)]
    engine.check_all_free()


def test_before_the_start_and_after_the_end_nothing_comes_of_it() -> None:
    engine = Engine(num_lanes=1)
    first = engine.submit(make_request("first", max_tokens=1))
    late = engine.submit(make_request("late", max_tokens=1))
    engine.inject("late", 500)
    engine.core.step()
    engine.inject("first", 500)
    engine.run()
    engine.inject("late", 500)
    engine.run()
    assert injections(first) == injections(late) == []
    assert first.endings and late.endings


def test_what_is_put_in_takes_room_in_the_context_and_none_of_the_answers_limit() -> None:
    engine = Engine()
    sink = held(engine, make_request("r", prompt=10, max_tokens=20, signals=FIRST))
    engine.runner.max_sequence_tokens = 40
    engine.inject("r", *range(500, 505))
    engine.resume("r", HOOK)
    engine.run()
    assert len(sink.token_ids) == 20
    assert sink.endings[0].reason is FinishReason.LENGTH  # type: ignore[union-attr]


@pytest.mark.parametrize(("num_injected", "num_left"), [(28, 2), (29, 1), (30, None)])
def test_where_the_context_is_short_the_answer_ends_earlier(num_injected: int, num_left: int | None) -> None:
    engine = Engine()
    sink = held(engine, make_request("r", prompt=10, max_tokens=20, signals=FIRST))
    engine.runner.max_sequence_tokens = 40
    engine.inject("r", *[500] * num_injected)
    engine.resume("r", HOOK)
    engine.run()
    assert len(sink.token_ids) == (20 if num_left is None else num_left)
    assert injections(sink) == [(0, 0, "no_room") if num_left is None else (num_injected, 1, "")]
    engine.check_all_free()


def test_a_long_text_is_computed_in_parts_beside_the_streams_of_others() -> None:
    engine = Engine(max_batch_tokens=64, max_prefill_tokens_beside_decodes=32)
    other = engine.submit(make_request("other", max_tokens=30))
    sink = held(engine)
    num_said = len(other.token_ids)
    engine.inject("r", *range(300, 500))
    engine.resume("r", HOOK)
    for _ in range(5):
        engine.core.step()
        engine.check()
    assert len(other.token_ids) == num_said + 5
    assert not sink.token_ids
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_its_cells_are_gone_meanwhile_and_everything_is_computed_again() -> None:
    engine = Engine()
    engine.submit(make_request("old", max_tokens=30))
    sink = held(engine, make_request("r", max_tokens=12, signals=EVERY_FOURTH))
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.run()
    assert engine.core.statistics(is_alive=True).total_preemptions == 1
    engine.inject("r", 500, 501)
    engine.run()
    engine.resume("r", HOOK)
    engine.run()
    assert sink.token_ids == [100 + index for index in range(7)]
    assert engine.runner.drawn["r"][:7] == [100, 101, 102, 500, 501, 103, 104]
    engine.resume("r", HOOK)
    engine.run()
    engine.check()


def test_its_cells_go_after_it_was_put_in() -> None:
    engine = Engine()
    engine.submit(make_request("old", max_tokens=30))
    sink = held(engine)
    engine.inject("r", 500, 501)
    engine.core.step()
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.core.step()
    assert engine.core.statistics(is_alive=True).total_preemptions == 1
    engine.resume("r", HOOK)
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_a_step_that_fails_in_what_was_put_in_is_tried_alone() -> None:
    engine = Engine()
    sink = held(engine)
    other = engine.submit(make_request("other"))
    engine.inject("r", *range(500, 520))
    engine.resume("r", HOOK)
    engine.runner.outcomes.append(StepOutcome.FAILED)
    engine.runner.num_rows_before_trouble = 7
    engine.run()
    assert sink.token_ids == other.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_a_slow_reader_keeps_it_standing_and_is_told_at_once() -> None:
    engine = Engine()
    sink = held(engine)
    engine.hold("r", HoldReason.READER)
    engine.resume("r", HOOK)
    engine.run()
    assert sink.token_ids == [100]
    engine.inject("r", 500)
    engine.run()
    assert injections(sink) == [(0, 0, "not_held")]
    engine.resume("r", HoldReason.READER)
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]


@pytest.mark.parametrize("is_injected", [False, True])
@pytest.mark.parametrize("end", ["cancel", "abandon"])
def test_it_can_end_while_its_hook_thinks(end: str, is_injected: bool) -> None:
    engine = Engine()
    sink = held(engine)
    if is_injected:
        engine.inject("r", 500, 501)
    if end == "cancel":
        engine.cancel("r")
        engine.run()
        assert not sink.endings
        engine.check_all_free()
    else:
        engine.core.step()
        error = ServiceUnavailable("over")
        engine.core.abandon(error, engine.admission.close(error))
        assert sink.endings == [Failed(error, 100.0)]
        assert engine.admission.num_held == 0
    assert not sink.token_ids


def test_others_find_what_was_put_in_in_the_prefix_cache_only_behind_the_same_tokens() -> None:
    engine = Engine(has_prefix_cache=True)
    prompt = tuple(range(10, 90))
    sink = held(engine, make_request("r", prompt=prompt, signals=FIRST))
    engine.inject("r", *range(500, 540))
    engine.resume("r", HOOK)
    engine.run()
    assert sink.endings
    same = engine.submit(make_request("same", prompt=(*prompt, *range(500, 540), 100, 7)))
    engine.run()
    other = engine.submit(make_request("other", prompt=(*prompt, 100, 101, 102)))
    engine.run()
    starts = [event for one in (same, other) for event in one.events if isinstance(event, Started)]
    assert [event.num_cached_tokens for event in starts] == [121, 80]
    engine.check_all_free()


def test_counts_of_decoded_tokens_know_nothing_of_it() -> None:
    engine = Engine()
    sink = held(engine, make_request("r", max_tokens=12, signals=EVERY_FOURTH))
    for _ in range(4):
        engine.inject("r", 500, 501, 502)
        engine.resume("r", HOOK)
        engine.run()
    told = [event.num_decoded for event in sink.events if isinstance(event, Signals)]
    # The one that was thrown away is drawn again, and that is not told again.
    assert told == [4, 8, 12]
    assert injections(sink) == [(3, 1, "")] * 2
    assert sink.token_ids == [100 + index for index in range(12)]
    engine.check_all_free()


def test_a_hook_that_puts_in_something_each_time_lets_the_answer_come_to_its_end() -> None:
    engine = Engine()
    engine.runner.measure = lambda request, index: LOST
    rule = SignalRule(min_decoded=0, min_between=0, window_tokens=1)
    sink = engine.submit(make_request("r", max_tokens=20, signals=SignalRequest(rules=(rule,))))
    for _ in range(60):
        engine.run()
        if not sink.endings:
            engine.inject("r", 500)
            engine.resume("r", HOOK)
    assert sink.token_ids == [100 + index for index in range(20)]
    assert 10 <= len(injections(sink)) <= 20
    engine.check_all_free()


def test_with_pictures_and_adapters() -> None:
    engine = Engine()
    request = with_media(make_request("r", prompt=40, signals=FIRST), (5, 10, "cat"), is_causal=False)
    sink = held(engine, with_adapters(request, AppliedAdapter("a", 0.5)))
    engine.submit(make_request("other", max_tokens=20))
    engine.inject("r", *range(500, 520))
    engine.resume("r", HOOK)
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_guessing_goes_by_what_was_put_in() -> None:
    engine = Engine()
    engine.runner.draw = lambda request, index: 700 + index % 4
    sink = held(engine, make_request("r", prompt=20, max_tokens=60, signals=FIRST, max_draft_tokens=8))
    engine.inject("r", *[700, 701, 702, 703] * 4)
    engine.resume("r", HOOK)
    engine.run()
    assert sink.token_ids == [700 + index % 4 for index in range(60)]
    assert engine.core.statistics(is_alive=True).total_accepted_tokens > 0
    engine.check_all_free()
