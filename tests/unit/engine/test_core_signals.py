"""The core with sequences whose hooks want to hear how sure the model is."""

from __future__ import annotations

import pytest

from inference.domain.backend import HoldReason
from inference.domain.events import Finished, FinishReason, Signals, Started, TokenBatch
from inference.domain.requests import GenerationRequest
from inference.domain.signals import SignalRequest, SignalWindow, TokenSignal
from inference.engine.plan import NOTHING_DRAWN, StepOutcome
from tests.unit.engine.scripted_engine_parts import END_TOKEN, LOST, SURE, Engine, RecordingSink, make_request

FIRST = SignalRequest(rules=())
ALL = SignalRequest()


def signals_of(sink: RecordingSink) -> list[Signals]:
    return [event for event in sink.events if isinstance(event, Signals)]


def test_the_first_signal_comes_before_its_token_and_the_second_waits_for_the_hook() -> None:
    engine = Engine()
    engine.runner.measure = lambda request, index: TokenSignal(float(index), 1.0)
    sink = engine.submit(make_request("asks", signals=FIRST))
    other = engine.submit(make_request("other", max_tokens=10))
    engine.run()
    assert [type(event) for event in sink.events] == [Started, Signals]
    assert sink.events[1] == Signals(TokenSignal(0.0, 1.0), 1, is_held=True, at_ts=100.0)
    assert other.endings
    assert engine.core.statistics(is_alive=True).num_held == 1
    engine.check()
    engine.resume("asks", HoldReason.HOOK)
    engine.run()
    assert sink.token_ids == [100, 101, 102, 103]
    assert len(signals_of(sink)) == 1
    engine.check_all_free()


@pytest.mark.parametrize("has_prefix_cache", [False, True])
def test_a_prompt_that_others_have_computed_is_told_of_with_its_first_token(has_prefix_cache: bool) -> None:
    engine = Engine(has_prefix_cache=has_prefix_cache)
    engine.runner.measure = lambda request, index: TokenSignal(float(index), 1.0)
    prompt = tuple(range(10, 90))
    asked = [make_request(f"g{place}", prompt=prompt, signals=FIRST, group="g") for place in range(2)]
    sinks = [engine.submit(request) for request in asked]
    engine.run()
    sinks.append(engine.submit(make_request("later", prompt=prompt, signals=FIRST)))
    engine.run()
    for sink in sinks:
        # Nothing of the answer is out yet.
        assert [type(event) for event in sink.events] == [Started, Signals]
        assert sink.events[1] == Signals(TokenSignal(0.0, 1.0), 1, is_held=True, at_ts=100.0)
    cached = [
        event.num_cached_tokens for sink in sinks for event in sink.events if isinstance(event, Started)
    ]
    assert cached == [0, 79, 79 if has_prefix_cache else 0]


def test_a_slow_reader_and_a_hook_hold_it_together() -> None:
    engine = Engine()
    sink = engine.submit(make_request("r", signals=FIRST))
    engine.core.step()
    engine.hold("r", HoldReason.READER)
    engine.resume("r", HoldReason.HOOK)
    engine.run()
    assert len(sink.token_ids) == 1
    engine.resume("r", HoldReason.READER)
    engine.run()
    assert len(sink.token_ids) == 4
    engine.check_all_free()


def test_where_the_rule_fires_the_window_comes_and_it_stands_still_again() -> None:
    engine = Engine()
    engine.runner.measure = lambda request, index: LOST if index < 30 else SURE
    sink = engine.submit(make_request("r", max_tokens=100, signals=ALL))
    for num_decoded in (1, 12):
        engine.run()
        assert len(sink.token_ids) == num_decoded - 1
        engine.check()
        engine.resume("r", HoldReason.HOOK)
    engine.run()
    first, window = signals_of(sink)
    assert first.signal == LOST
    assert isinstance(window.signal, SignalWindow)
    assert (window.num_decoded, window.signal.num_high_entropy, window.is_held) == (12, 12, True)
    assert sink.token_ids == [100 + index for index in range(100)]
    engine.check_all_free()


def test_without_a_hold_it_is_only_told() -> None:
    engine = Engine()
    engine.runner.measure = lambda request, index: LOST
    sink = engine.submit(make_request(max_tokens=50, signals=SignalRequest(wants_hold=False)))
    engine.run()
    assert [event.num_decoded for event in signals_of(sink)] == [1, 12, 44]
    assert not any(event.is_held for event in signals_of(sink))
    assert sink.endings


def test_who_does_not_ask_is_told_nothing() -> None:
    engine = Engine()
    engine.runner.measure = lambda request, index: LOST
    sink = engine.submit(make_request(max_tokens=50))
    engine.run()
    assert signals_of(sink) == []


def test_an_answer_that_ends_with_the_token_is_told_but_not_held() -> None:
    engine = Engine()
    sink = engine.submit(make_request(max_tokens=1, signals=ALL))
    engine.run()
    assert [type(event) for event in sink.events] == [Started, Signals, TokenBatch, Finished]
    assert not signals_of(sink)[0].is_held
    engine.check_all_free()


@pytest.mark.parametrize("drawn", [END_TOKEN, NOTHING_DRAWN])
def test_no_token_no_signal(drawn: int) -> None:
    engine = Engine()
    engine.runner.draw = lambda request, index: drawn
    sink = engine.submit(make_request(signals=ALL))
    engine.run()
    assert signals_of(sink) == []
    assert len(sink.endings) == 1
    engine.check_all_free()


def test_an_isolated_step_holds_and_goes_on_like_any_other() -> None:
    engine = Engine()
    engine.runner.poisoned.add("bad")
    sink = engine.submit(make_request("asks", signals=ALL))
    other = engine.submit(make_request("other"))
    engine.submit(make_request("bad"))
    engine.run()
    assert [type(event) for event in sink.events] == [Started, Signals]
    engine.resume("asks", HoldReason.HOOK)
    engine.run()
    assert sink.token_ids == other.token_ids == [100, 101, 102, 103]
    engine.check_all_free()


def test_a_preemption_while_the_hook_thinks_tells_nothing_twice() -> None:
    engine = Engine()
    asked: list[int] = []

    def measure(request: GenerationRequest, index: int) -> TokenSignal:
        asked.append(index)
        return SURE

    engine.runner.measure = measure
    other = engine.submit(make_request("other", max_tokens=30))
    sink = engine.submit(make_request("asks", signals=ALL))
    engine.core.step()
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.run()
    assert other.endings
    assert engine.core.statistics(is_alive=True).total_preemptions == 1
    engine.resume("asks", HoldReason.HOOK)
    engine.run()
    assert len(signals_of(sink)) == 1
    assert asked == [0, 1, 2, 3]
    ending = sink.events[-1]
    assert isinstance(ending, Finished)
    assert ending.reason is FinishReason.LENGTH
    engine.check_all_free()


def test_once_there_is_nothing_more_to_tell_nothing_is_measured() -> None:
    engine = Engine()
    asked: list[int] = []

    def measure(request: GenerationRequest, index: int) -> TokenSignal:
        asked.append(index)
        return SURE

    engine.runner.measure = measure
    engine.submit(make_request(max_tokens=20, signals=SignalRequest(rules=(), wants_hold=False)))
    engine.run()
    assert asked == [0]
