"""The core with prompts whose own tokens are scored: every token once, and others go on beside it."""

from __future__ import annotations

import pytest

from inference.domain.events import Failed, Finished, FinishReason, PromptScores, Started, TokenBatch
from inference.domain.requests import GenerationRequest
from inference.engine.plan import StepOutcome
from tests.unit.engine.scripted_engine_parts import Engine, RecordingSink, make_request, score_of


def make_engine(**config: float) -> Engine:
    sizes: dict[str, float] = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 32, **config}
    return Engine(has_prefix_cache=True, **sizes)  # type: ignore[arg-type]


def submit(engine: Engine, name: str = "r", length: int = 100, max_tokens: int = 3) -> RecordingSink:
    return engine.submit(make_request(name, prompt=length, max_tokens=max_tokens, num_prompt_logprobs=0))


def expected(request: GenerationRequest) -> list[float]:
    return [score_of(place, token_id) for place, token_id in enumerate(request.prompt_token_ids)][1:]


def check(engine: Engine, name: str = "r") -> None:
    assert engine.sinks[name].prompt_scores == expected(engine.submissions[name].request)


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 2, 3, 16, 17, 18, 100])
def test_every_token_but_the_first_is_scored_once(length: int, max_tokens: int) -> None:
    engine = make_engine()
    sink = submit(engine, length=length, max_tokens=max_tokens)
    engine.run()
    check(engine)
    assert sink.token_ids == [100, 101, 102][:max_tokens]
    kinds = [type(event) for event in sink.events]
    assert kinds == sorted(kinds, key=[Started, PromptScores, TokenBatch, Finished].index)
    assert sink.endings == [Finished(FinishReason.LENGTH, 100.0)]
    engine.check_all_free()


def test_nothing_is_computed_where_nothing_is_asked() -> None:
    engine = make_engine()
    sink = engine.submit(make_request(prompt=50, max_tokens=0))
    engine.run()
    assert [type(event) for event in sink.events] == [Started, Finished]
    assert not engine.runner.plans
    engine.check_all_free()


def test_cached_cells_are_of_no_use_and_those_that_were_scored_are() -> None:
    engine = make_engine()
    engine.submit(make_request("before", prompt=100))
    engine.run()
    submit(engine)
    engine.run()
    check(engine)
    after = engine.submit(make_request("after", prompt=100))
    engine.run()
    assert isinstance(after.events[0], Started)
    assert after.events[0].num_cached_tokens == 99
    engine.check_all_free()


def test_streams_beside_it_go_on_every_second_step() -> None:
    engine = make_engine()
    stream = engine.submit(make_request("stream", prompt=(900, 901), max_tokens=500))
    engine.core.step()
    scored = submit(engine, length=400)
    while not any(isinstance(event, TokenBatch) for event in scored.events):
        before = len(stream.token_ids)
        engine.core.step()
        engine.core.step()
        assert len(stream.token_ids) > before
    check(engine)
    engine.run()
    engine.check_all_free()


def test_several_are_scored_one_after_the_other() -> None:
    engine = make_engine()
    for index in range(3):
        submit(engine, f"r{index}", length=50)
    engine.run()
    for index in range(3):
        check(engine, f"r{index}")
    engine.check_all_free()


@pytest.mark.parametrize("trouble", [StepOutcome.ABORTED, OSError("gone")])
@pytest.mark.parametrize("num_rows", [0, 5])
def test_a_step_that_goes_wrong_leaves_no_gap(trouble: StepOutcome | Exception, num_rows: int) -> None:
    engine = make_engine()
    submit(engine)
    for _ in range(3):
        engine.core.step()
    engine.runner.outcomes.append(trouble)
    engine.runner.num_rows_before_trouble = num_rows
    engine.run()
    check(engine)
    engine.check_all_free()


def test_one_that_was_preempted_is_not_scored_twice() -> None:
    engine = make_engine()
    engine.submit(make_request("first", prompt=(900,), max_tokens=20))
    engine.core.step()
    scored = submit(engine, length=150, max_tokens=2)
    for _ in range(4):
        engine.core.step()
    engine.runner.outcomes.append(StepOutcome.NO_CELLS)
    engine.run()
    check(engine)
    assert scored.token_ids == [100, 101]
    assert engine.core.statistics(is_alive=True).total_preemptions
    engine.check_all_free()


def test_one_that_is_held_or_cancelled_on_the_way() -> None:
    engine = make_engine()
    submit(engine, "held")
    submit(engine, "gone")
    engine.core.step()
    engine.hold("held")
    engine.cancel("gone")
    engine.run()
    engine.resume("held")
    engine.run()
    check(engine, "held")
    engine.check_all_free()


def test_a_failure_is_its_own() -> None:
    engine = make_engine()
    engine.runner.poisoned.add("bad")
    bad = submit(engine, "bad")
    good = submit(engine, "good")
    engine.run()
    assert isinstance(bad.endings[0], Failed)
    assert isinstance(good.endings[0], Finished)
    check(engine, "good")
    engine.check_all_free()
