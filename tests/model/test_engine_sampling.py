"""Sampling parameters at work on real logits, through the whole engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference.domain.events import Finished, FinishReason, TokenBatch
from inference.domain.logprobs import TokenLogprobs
from inference.domain.requests import SamplingParams
from inference.domain.sampling import SamplerStage
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


RARE = {
    "typical": {"typical_p": 0.8},
    "sigma": {"top_n_sigma": 1.0},
    "dynamic": {"dynatemp_range": 0.5},
    "xtc": {"xtc_probability": 0.5},
    "dry": {"dry_multiplier": 0.8},
    "mirostat 1": {"mirostat_mode": 1},
    "mirostat 2": {"mirostat_mode": 2},
    "order": {"stages": (SamplerStage.TEMPERATURE, SamplerStage.TOP_P)},
}


def test_every_rare_stage_generates_beside_the_others_and_repeats_its_seed(engine: SteppedEngine) -> None:
    answers: list[dict[str, list[int]]] = []
    for attempt in range(2):
        sinks = {}
        for name, fields in RARE.items():
            sampling = SamplingParams(seed=4, **fields)  # type: ignore[arg-type]
            prompt = chat("Tell me about rivers.")
            sinks[name] = engine.submit(f"{name} {attempt}", prompt, max_tokens=8, sampling=sampling)
        engine.run()
        answers.append({name: sink.token_ids for name, sink in sinks.items()})
    assert all(len(answer) > 2 for answer in answers[0].values())
    # The first tokens come from the same logits; later ones may part with the batch's shape.
    assert [answer[0] for answer in answers[0].values()] == [answer[0] for answer in answers[1].values()]


def test_dry_ends_a_loop(engine: SteppedEngine) -> None:
    prompt = "one two three one two three one two three one two"
    loop = engine.submit("loop", prompt, max_tokens=9, ignore_eos=True)
    dry = replace(GREEDY, dry_multiplier=5.0)
    free = engine.submit("free", prompt, max_tokens=9, ignore_eos=True, sampling=dry)
    engine.run()
    assert len(set(loop.token_ids)) <= 4
    assert free.token_ids[0] != loop.token_ids[0]


def test_random_and_other_state_survives_a_preemption(model: LlamaModel) -> None:
    sampling = SamplingParams(seed=9, dry_multiplier=0.8, typical_p=0.9, repeat_penalty=1.1)
    counts = []
    for num_cells in (1024, 256):
        config = EngineConfig(num_threads=1, num_lanes=3, num_cells=num_cells)
        with SteppedEngine(model, config) as stepped:
            sinks = [
                stepped.submit(f"{n}", f"Item {n}:", max_tokens=100, ignore_eos=True, sampling=sampling)
                for n in range(3)
            ]
            samplers = {}
            while stepped.core.step():
                samplers.update(stepped.runner._samplers)
            statistics = stepped.core.statistics(is_alive=True)
            assert (statistics.total_preemptions > 0) == (num_cells == 256)
            assert [len(sink.token_ids) for sink in sinks] == [100] * 3
            # The same numbers were taken from each, no more and no fewer.
            counts.append([sampler.uniform() for _, sampler in sorted(samplers.items())])
            stepped.check_all_free()
    assert counts[0] == counts[1]
