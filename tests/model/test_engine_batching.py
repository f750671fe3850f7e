"""What llama.cpp computes in a mixed batch is what it computes alone, but for numeric noise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from inference.domain.clock import SystemClock
from inference.domain.events import Event, Failed, Finished, FinishReason, TokenBatch
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.engine.client import EngineClient
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaRunner
from inference.engine.thread import EngineThread
from tests.admission_parts import make_admission
from tests.model.stepped_engine import GREEDY, SteppedEngine, chat

QUESTIONS = [
    "What is the capital of France?",
    "Count to ten.",
    "Name a colour.",
    "Write one sentence about the sea. " * 6,
    "2 + 2 =",
]
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
    """Where cores are shared with other processes, threads that wait for each other crawl."""
    return EngineConfig(num_threads=1, **sizes)


class Watched(SteppedEngine):
    """Keeps the logits from which each token was drawn."""

    def __init__(self, model: LlamaModel, config: EngineConfig) -> None:
        super().__init__(model, config)
        self.logits: dict[str, list[np.ndarray]] = {}
        run = self.runner.run

        def watch(plan: object) -> object:
            result = run(plan)  # type: ignore[arg-type]
            if plan.outputs and result.token_ids:  # type: ignore[attr-defined]
                rows = self.runner._context.logits(len(plan.outputs))  # type: ignore[attr-defined]
                for row, sequence in zip(rows, plan.outputs, strict=True):  # type: ignore[attr-defined]
                    self.logits.setdefault(sequence.request.request_id, []).append(row.copy())
            return result

        self.runner.run = watch  # type: ignore[method-assign,assignment]


def check_mixed_is_alone(model: LlamaModel, noise: float) -> None:
    config = one_thread(num_lanes=4, num_cells=2048, max_prefill_tokens_beside_decodes=32)
    with Watched(model, config) as alone:
        expected = {}
        for question in QUESTIONS:
            expected[question] = alone.submit(question, chat(question), max_tokens=12)
            alone.run()
    with Watched(model, config) as together:
        found = {question: together.submit(question, chat(question), max_tokens=12) for question in QUESTIONS}
        together.run()
        together.check_all_free()
    for question in QUESTIONS:
        pairs = list(zip(expected[question].token_ids, found[question].token_ids, strict=False))
        assert pairs
        for index, (one, other) in enumerate(pairs):
            lonely, mixed = alone.logits[question][index], together.logits[question][index]
            assert distance(lonely, mixed) < noise, (question, index)
            if one != other:
                # From a near-tie on the texts go their own ways.
                assert lonely[one] - lonely[other] < noise
                break


def test_in_a_mixed_batch_logits_and_greedy_tokens_are_those_alone(tiny_model: LlamaModel) -> None:
    check_mixed_is_alone(tiny_model, F32_NOISE)


def test_they_are_within_the_noise_of_quantized_weights_too(model: LlamaModel) -> None:
    check_mixed_is_alone(model, Q8_NOISE)


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
