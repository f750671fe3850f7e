"""Sampling parameters at work on real logits, through the whole engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference.domain.events import Finished, FinishReason
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.model.stepped_engine import GREEDY, SteppedEngine, chat


@pytest.fixture(scope="module")
def engine(model: LlamaModel) -> Iterator[SteppedEngine]:
    config = EngineConfig(num_threads=1, num_lanes=4, num_cells=2048)
    with SteppedEngine(model, config) as stepped:
        yield stepped
        stepped.check_all_free()


def test_a_bias_takes_the_place_of_a_token(engine: SteppedEngine) -> None:
    plain = engine.submit("plain", chat("Name a colour."), max_tokens=4)
    engine.run()
    first = plain.token_ids[0]
    without = replace(GREEDY, logit_bias=((first, -100.0),))
    only = replace(GREEDY, logit_bias=((500, 100.0),))
    other = engine.submit("other", chat("Name a colour."), max_tokens=4, sampling=without)
    forced = engine.submit("forced", chat("Name a colour."), max_tokens=4, sampling=only)
    again = engine.submit("again", chat("Name a colour."), max_tokens=4)
    engine.run()
    assert first not in other.token_ids
    assert forced.token_ids == [500] * 4
    assert again.token_ids == plain.token_ids


def test_a_repeat_penalty_ends_a_loop(engine: SteppedEngine) -> None:
    prompt = "one one one one one one one one"
    loop = engine.submit("loop", prompt, max_tokens=12, ignore_eos=True)
    engine.run()
    penalty = replace(GREEDY, repeat_penalty=5.0)
    varied = engine.submit("varied", prompt, max_tokens=12, ignore_eos=True, sampling=penalty)
    blind = engine.submit(
        "blind", prompt, max_tokens=12, ignore_eos=True, sampling=replace(penalty, repeat_last_n=0)
    )
    engine.run()
    assert len(set(loop.token_ids)) < 4
    assert len(set(varied.token_ids)) > 8
    assert blind.token_ids == loop.token_ids


def test_an_answer_has_its_minimum_of_tokens(engine: SteppedEngine) -> None:
    end = min(engine.runner.end_token_ids)
    ending = replace(GREEDY, logit_bias=((end, 100.0),))
    sinks = [
        engine.submit(f"min {count}", chat("Say OK."), max_tokens=20, min_tokens=count, sampling=ending)
        for count in (0, 1, 7)
    ]
    engine.run()
    assert [len(sink.token_ids) for sink in sinks] == [0, 1, 7]
    for sink in sinks:
        ended = sink.endings[0]
        assert isinstance(ended, Finished)
        assert ended.reason is FinishReason.STOP
