"""Sampling parameters at work on real logits, through the whole engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference.domain.events import Finished, FinishReason, TokenBatch
from inference.domain.logprobs import TokenLogprobs
from inference.domain.requests import SamplingParams
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.model.stepped_engine import GREEDY, SteppedEngine, chat
from tests.unit.engine.scripted_engine_parts import RecordingSink


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


def logprobs_of(sink: RecordingSink) -> list[TokenLogprobs]:
    return [one for event in sink.events if isinstance(event, TokenBatch) for one in event.logprobs]


def test_logprobs_tell_the_greedy_choice(engine: SteppedEngine) -> None:
    asks = engine.submit("asks", chat("Count to ten."), max_tokens=12, num_top_logprobs=20)
    other = engine.submit("other", chat("Count to ten."), max_tokens=12)
    engine.run()
    found = logprobs_of(asks)
    assert len(found) == len(asks.token_ids) > 3
    assert not logprobs_of(other)
    for token_id, one in zip(asks.token_ids, found, strict=True):
        assert one.top[0] == (token_id, one.logprob)
        values = [value for _, value in one.top]
        assert values == sorted(values, reverse=True)
        assert len({alternative for alternative, _ in one.top}) == 20
        assert 0 < sum(math.exp(value) for value in values) <= 1.00001


def test_logprobs_are_the_models_whatever_sampling_does(engine: SteppedEngine) -> None:
    prompt = chat("Name a colour.")
    plain = engine.submit("plain", prompt, max_tokens=1, num_top_logprobs=3)
    engine.run()
    first = plain.token_ids[0]
    for name, sampling in {
        "hot": SamplingParams(temperature=2.0, seed=1),
        "biased": SamplingParams(logit_bias=((first, -100.0),)),
        "repeat": SamplingParams(repeat_penalty=50.0, temperature=0.0),
    }.items():
        sink = engine.submit(name, prompt, max_tokens=1, sampling=sampling, num_top_logprobs=3)
        engine.run()
        (found,) = logprobs_of(sink)
        (expected,) = logprobs_of(plain)
        assert [token_id for token_id, _ in found.top] == [token_id for token_id, _ in expected.top]
        assert [value for _, value in found.top] == pytest.approx([v for _, v in expected.top], abs=1e-3)
        assert found.logprob == dict(found.top).get(sink.token_ids[0], found.logprob)
        assert found.logprob <= expected.logprob + 1e-3


def test_control_tokens_have_names(model: LlamaModel) -> None:
    names = model.tokenizer.control_texts
    assert "<|im_end|>" in names.values()
    assert all(model.tokenizer.pieces[token_id] == b"" for token_id in names)
