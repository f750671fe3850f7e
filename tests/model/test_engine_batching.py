"""What llama.cpp computes in a mixed batch is what it computes alone, but for numeric noise."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from inference.domain.clock import SystemClock
from inference.domain.events import Event, Failed, Finished, FinishReason, TokenBatch
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.engine.client import EngineClient
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaRunner
from inference.engine.thread import EngineThread
from tests.admission_parts import make_admission
from tests.model.stepped_engine import GREEDY, SteppedEngine, chat
from tests.model.watched_engine import WatchedEngine

QUESTIONS = [
    "What is the capital of France?",
    "Count to ten.",
    "Name a colour.",
    "Write one sentence about the sea. " * 6,
    "2 + 2 =",
]
RULES = "Answer as a sailor would, in a few words, and never speak of the land or of anybody on it. "
# Batches of other shapes are added up in another order. With F32 weights and F16 cells that moves
# the distances between the likely logits by 0.001; with Q8_0 weights, whose inputs are rounded to
# 8 bits in every layer, by up to 0.6 (they spread over 40).
F32_NOISE = 0.01
Q8_NOISE = 1.5
NUM_LIKELY = 20


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """How much the likely tokens' logits, below the highest, differ: what sampling would notice."""
    likely = np.argsort(-one)[:NUM_LIKELY]
    return float(np.abs((one - one.max()) - (other - other.max()))[likely].max())


def one_thread(**sizes: int) -> EngineConfig:
    """Where cores are shared with other processes, threads that wait for each other crawl. Without
    pacing, prompts are cut in the same places however slow the machine is."""
    return EngineConfig(num_threads=1, target_step_s=1e6, **sizes)


@dataclass(frozen=True)
class Company:
    """A way to answer the questions: sizes, all at once or in turn, and what is answered before."""

    config: EngineConfig
    is_at_once: bool = True
    earlier: tuple[str, ...] = ()


ALONE = Company(one_thread(num_lanes=4, num_cells=2048, has_prefix_cache=False), is_at_once=False)
COMPANIES = {
    "mixed": Company(one_thread(num_lanes=4, num_cells=2048, max_prefill_tokens_beside_decodes=32)),
    "chunked": Company(
        one_thread(num_lanes=1, num_cells=2048, max_batch_tokens=32, max_prefill_tokens_beside_decodes=32),
        is_at_once=False,
    ),
    "copied": Company(
        one_thread(num_lanes=4, num_cells=2048, min_cached_tokens=16), earlier=("Good morning.",)
    ),
    "preempted": Company(one_thread(num_lanes=5, num_cells=256, has_prefix_cache=False)),
}


def answer(model: LlamaModel, company: Company) -> tuple[WatchedEngine, dict[str, list[int]]]:
    with WatchedEngine(model, company.config) as engine:
        for text in company.earlier:
            engine.submit(text, chat(RULES + text), max_tokens=1)
            engine.run()
        sinks = {}
        for question in QUESTIONS:
            sinks[question] = engine.submit(question, chat(RULES + question), max_tokens=12)
            if not company.is_at_once:
                engine.run()
        engine.run()
        engine.check_all_free()
    return engine, {question: sink.token_ids for question, sink in sinks.items()}


def check_as_alone(model: LlamaModel, company: Company, noise: float) -> WatchedEngine:
    alone, expected = answer(model, ALONE)
    beside, found = answer(model, company)
    num_compared = 0
    for question in QUESTIONS:
        for index, (one, other) in enumerate(zip(expected[question], found[question], strict=False)):
            lonely, mixed = alone.logits[question][index], beside.logits[question][index]
            assert distance(lonely, mixed) < noise, (question, index)
            num_compared += 1
            if one != other:
                # From a near-tie on the texts go their own ways.
                assert lonely[one] - lonely[other] < noise
                break
    assert num_compared > 3 * len(QUESTIONS)
    return beside


@pytest.mark.parametrize("kind", COMPANIES)
def test_in_any_company_logits_and_greedy_tokens_are_those_alone(tiny_model: LlamaModel, kind: str) -> None:
    beside = check_as_alone(tiny_model, COMPANIES[kind], F32_NOISE)
    statistics = beside.core.statistics(is_alive=True)
    assert (statistics.cache.total_hits >= len(QUESTIONS)) == (kind == "copied")
    assert (statistics.total_preemptions > 0) == (kind == "preempted")


@pytest.mark.parametrize("kind", ["mixed", "copied"])
def test_they_are_within_the_noise_of_quantized_weights_too(model: LlamaModel, kind: str) -> None:
    check_as_alone(model, COMPANIES[kind], Q8_NOISE)


def test_the_same_batches_give_the_same_logits(tiny_model: LlamaModel) -> None:
    (one, first), (other, second) = answer(tiny_model, ALONE), answer(tiny_model, ALONE)
    assert first == second
    for question in QUESTIONS:
        assert all(map(np.array_equal, one.logits[question], other.logits[question]))


def test_prompts_longer_than_a_batch_give_the_same_answer(tiny_model: LlamaModel) -> None:
    prompt = tuple(100 + index * 7 % 4000 for index in range(700))
    answers = []
    for max_batch_tokens in (32, 512, 1024):
        config = one_thread(
            num_lanes=2,
            num_cells=1024,
            max_batch_tokens=max_batch_tokens,
            max_prefill_tokens_beside_decodes=32,
        )
        with SteppedEngine(tiny_model, config) as engine:
            sink = engine.submit("long", prompt, max_tokens=8, ignore_eos=True)
            engine.run()
            engine.check_all_free()
            answers.append(sink.token_ids)
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 8


def test_cancel_frees_cells_in_every_phase(tiny_model: LlamaModel) -> None:
    config = one_thread(
        num_lanes=4, num_cells=4096, max_batch_tokens=64, max_prefill_tokens_beside_decodes=64
    )
    with SteppedEngine(tiny_model, config) as engine:
        engine.submit("prefilling", tuple(range(100, 1100)), max_tokens=5)
        decoding = engine.submit("decoding", (50, 51, 52), max_tokens=500, ignore_eos=True)
        stays = engine.submit("stays", (60, 61), max_tokens=30, ignore_eos=True)
        for _ in range(4):
            engine.core.step()
        assert decoding.token_ids
        before = engine.num_cells_in_use()
        assert before > 100
        engine.cancel("prefilling")
        engine.cancel("decoding")
        engine.core.step()
        assert engine.num_cells_in_use() <= 2 + len(stays.token_ids)
        assert engine.core.statistics(is_alive=True).lanes.num_used == 1
        engine.run()
        assert len(stays.token_ids) == 30
        engine.check_all_free()


def test_preemption_finishes_everybody_with_the_right_tokens(tiny_model: LlamaModel) -> None:
    prompts = [tuple(range(100 + 50 * index, 160 + 50 * index)) for index in range(5)]
    roomy = one_thread(num_lanes=5, num_cells=4096)
    tight = one_thread(num_lanes=5, num_cells=256)
    answers = []
    for config in (roomy, tight):
        with SteppedEngine(tiny_model, config) as engine:
            sinks = [
                engine.submit(f"r{index}", prompt, max_tokens=70, ignore_eos=True)
                for index, prompt in enumerate(prompts)
            ]
            engine.run()
            engine.check_all_free()
            statistics = engine.core.statistics(is_alive=True)
            assert statistics.total_failed_sequences == 0
            assert (statistics.total_preemptions > 0) == (config is tight)
            answers.append([sink.token_ids for sink in sinks])
    assert [len(answer) for answer in answers[1]] == [70] * 5
    # Recomputed cells are rounded a little differently, so late tokens may part at near-ties.
    assert [answer[:8] for answer in answers[0]] == [answer[:8] for answer in answers[1]]


def test_a_seed_repeats_itself_when_alone(model: LlamaModel) -> None:
    with SteppedEngine(model, one_thread(num_lanes=2, num_cells=1024)) as engine:
        answers = []
        for name, seed in (("a", 7), ("b", 7), ("c", 8), ("d", 0), ("e", 0)):
            sampling = SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, seed=seed)
            sink = engine.submit(name, chat("Tell me about rivers."), max_tokens=10, sampling=sampling)
            engine.run()
            answers.append(sink.token_ids)
    assert answers[0] == answers[1] != answers[2]
    assert answers[3] == answers[4] != answers[0]


def test_an_answer_stops_by_itself_unless_told_to_ignore_it(model: LlamaModel) -> None:
    with SteppedEngine(model, one_thread(num_lanes=2, num_cells=1024)) as engine:
        stops = engine.submit("stops", chat("Say OK."), max_tokens=120)
        goes_on = engine.submit("goes on", chat("Say OK."), max_tokens=120, ignore_eos=True)
        engine.run()
        engine.check_all_free()
    ending = stops.endings[0]
    assert isinstance(ending, Finished)
    assert ending.reason is FinishReason.STOP
    assert len(stops.token_ids) < 120
    assert model.tokenizer.end_token_ids.isdisjoint(stops.token_ids)
    assert len(goes_on.token_ids) == 120
    assert model.tokenizer.end_token_ids.isdisjoint(goes_on.token_ids)


def test_the_answer_makes_sense(model: LlamaModel) -> None:
    with SteppedEngine(model, one_thread(num_lanes=2, num_cells=1024)) as engine:
        sink = engine.submit("q", chat("What is the capital of France?"), max_tokens=12)
        engine.run()
    text = b"".join(model.tokenizer.pieces[one] for one in sink.token_ids).decode(errors="replace")
    assert "Paris" in text


async def _collect(client: EngineClient, request: GenerationRequest) -> list[Event]:
    return [event async for event in client.submit(request)]


async def test_the_whole_engine_from_the_event_loop(tiny_model_path: Path) -> None:
    config = one_thread(num_lanes=4, num_cells=2048)
    model = await asyncio.to_thread(LlamaModel.load, tiny_model_path, config)
    admission = make_admission(num_lanes=4, max_waiting=64, num_cells=2048)
    thread = EngineThread(lambda: LlamaRunner(model, config), config, admission, SystemClock())
    client = EngineClient(thread, admission)
    await client.start()
    requests = [
        GenerationRequest(f"r{index}", tuple(range(100, 110 + index)), 20, GREEDY, ignore_eos=True)
        for index in range(20)
    ]
    answers = await asyncio.gather(*(_collect(client, request) for request in requests))
    for events in answers:
        assert isinstance(events[-1], Finished)
        assert sum(len(event.token_ids) for event in events if isinstance(event, TokenBatch)) == 20
    endless = client.submit(GenerationRequest("endless", (5, 6), 2000, GREEDY, ignore_eos=True))
    async for event in endless:
        if isinstance(event, TokenBatch):
            break
    assert await client.stop(10)
    rest = [event async for event in endless]
    assert isinstance(rest[-1], Failed)
    assert model.is_closed
    assert admission.statistics().num_granted == 0
    assert client.statistics.lanes.num_used == 0


async def test_stop_does_not_wait_for_a_long_batch(model_path: Path) -> None:
    config = one_thread(
        num_lanes=1, num_cells=4096, max_batch_tokens=2048, min_prefill_tokens=2048,
        max_prefill_tokens_beside_decodes=2048,
    )  # fmt: skip
    model = await asyncio.to_thread(LlamaModel.load, model_path, config)
    admission = make_admission(num_lanes=1, max_waiting=4, num_cells=4096)
    thread = EngineThread(lambda: LlamaRunner(model, config), config, admission, SystemClock())
    client = EngineClient(thread, admission)
    await client.start()
    handle = client.submit(GenerationRequest("long", tuple(range(100, 2148)), 5, GREEDY))
    await anext(aiter(handle))
    # The batch takes many seconds on one thread; it is interrupted within a few nodes of its graph.
    await asyncio.sleep(0.3)
    assert client.statistics.total_steps == 0
    begin_ts = asyncio.get_running_loop().time()
    assert await client.stop(30)
    assert asyncio.get_running_loop().time() - begin_ts < 3
    events = [event async for event in handle]
    assert isinstance(events[-1], Failed)
