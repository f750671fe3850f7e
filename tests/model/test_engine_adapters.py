"""LoRA adapters with llama.cpp: what they change, what they do not, and that nothing is mixed up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inference.domain.adapters import AdapterSet, AppliedAdapter, adapter_namespace, adapter_set
from inference.domain.events import Dropped, Failed, Finished, Started, TokenBatch
from inference.domain.signals import SignalRequest
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from inference.engine.load_error import ModelLoadError
from tests.model.stepped_engine import SteppedEngine, chat
from tests.model.test_engine_speculation import ALPHABET, LOOKUP, SAMPLINGS, GuessingEngine, num_guessed
from tests.model.tiny_adapter import write_adapter
from tests.unit.engine.scripted_engine_parts import RecordingSink

ONE, TWO = AppliedAdapter("one", 1.0), AppliedAdapter("two", 1.0)
SETS: list[AdapterSet] = [(), (ONE,), (TWO,), (ONE, TWO), (AppliedAdapter("one", 0.25),)]
CONFIG = EngineConfig(num_lanes=8, num_cells=4096, num_threads=1)
REPEATING = SAMPLINGS["top_k"]
PROMPT = chat("Say something about nothing at all, please.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(scope="module")
def changed_model(tiny_model_path: Path, folder: Path) -> Iterator[LlamaModel]:
    loaded = LlamaModel.load(tiny_model_path, CONFIG)
    loaded.load_adapters(
        {
            name: write_adapter(tiny_model_path, folder / f"{name}.gguf", seed=seed)
            for seed, name in enumerate(("one", "two"))
        }
    )
    yield loaded
    loaded.close()


@pytest.fixture
def engine(changed_model: LlamaModel) -> Iterator[SteppedEngine]:
    with SteppedEngine(changed_model, CONFIG) as made:
        yield made
        made.check_all_free()


def submit(engine: SteppedEngine, name: str, adapters: AdapterSet, **fields: object) -> RecordingSink:
    namespace = adapter_namespace(adapters)
    return engine.submit(name, PROMPT, namespace=namespace, adapters=adapters, **fields)  # type: ignore[arg-type]


def test_text_of_a_hook_is_computed_with_the_adapters_of_its_answer(engine: SteppedEngine) -> None:
    text = tuple(range(2000, 2030))
    said = {}
    for number, adapters in enumerate(((), (ONE,), (TWO,))):
        hooked = submit(
            engine, f"h{number}", adapters, max_tokens=8, ignore_eos=True, signals=SignalRequest(rules=())
        )
        engine.run()
        engine.inject(f"h{number}", *text)
        engine.resume(f"h{number}")
        prompt = engine.submissions[f"h{number}"].request.prompt_token_ids
        plain = engine.submit(
            f"p{number}",
            (*prompt, *text),
            max_tokens=8,
            ignore_eos=True,
            adapters=adapters,
            namespace="other" + adapter_namespace(adapters),
        )
        engine.run()
        assert hooked.token_ids[:3] == plain.token_ids[:3]
        said[adapters] = tuple(hooked.token_ids)
    assert len(set(said.values())) == 3


def alone(engine: SteppedEngine, name: str, adapters: AdapterSet, max_tokens: int = 24) -> list[int]:
    sink = submit(engine, name, adapters, max_tokens=max_tokens, ignore_eos=True)
    engine.run()
    return sink.token_ids


def test_each_set_says_something_else_and_none_says_what_the_model_does(
    engine: SteppedEngine, tiny_model: LlamaModel
) -> None:
    with SteppedEngine(tiny_model, CONFIG) as plain:
        expected = alone(plain, "plain", ())
    said = [alone(engine, f"r{number}", adapters) for number, adapters in enumerate(SETS)]
    assert said[0] == expected
    assert len({tuple(one) for one in said}) == len(SETS)
    nothing = adapter_set([AppliedAdapter("one", 0.0), AppliedAdapter("two", 0.0)])
    assert alone(engine, "nothing", nothing) == expected
    assert alone(engine, "again", SETS[1]) == said[1]


def test_their_memory_is_counted(changed_model: LlamaModel) -> None:
    (buffer,) = changed_model.adapters.buffers[:1]
    assert buffer[1] == "LoRA"
    assert set(changed_model.adapters.buffers) <= set(changed_model.buffers)


def test_a_mixed_load_says_what_each_says_alone(engine: SteppedEngine) -> None:
    expected = [alone(engine, f"alone {number}", adapters) for number, adapters in enumerate(SETS)]
    while engine.core._memory.evict_one():
        pass
    # One of each set at a time, so that each prompt is computed as it was alone.
    sinks = [
        submit(engine, f"mixed {number}", adapters, max_tokens=24, ignore_eos=True)
        for number, adapters in enumerate(SETS)
    ]
    engine.run()
    assert [sink.token_ids for sink in sinks] == expected
    engine.check()


def test_a_set_finds_its_own_prefix_and_never_anothers(engine: SteppedEngine) -> None:
    expected = {}
    for number, adapters in enumerate(SETS):
        expected[adapters] = alone(engine, f"first {number}", adapters)
    for number, adapters in enumerate(SETS):
        sink = submit(engine, f"second {number}", adapters, max_tokens=24, ignore_eos=True)
        engine.run()
        started = sink.events[0]
        assert isinstance(started, Started)
        assert sink.token_ids[:8] == expected[adapters][:8]
    fresh = submit(engine, "fresh", (AppliedAdapter("two", 0.5),), max_tokens=2)
    engine.run()
    started = fresh.events[0]
    assert isinstance(started, Started)
    assert started.num_cached_tokens == 0


def test_cancelled_held_and_preempted_ones_under_several_sets(changed_model: LlamaModel) -> None:
    prompt_tokens = len(changed_model.tokenizer.tokenize(PROMPT, add_special=True, parse_special=True))
    config = EngineConfig(
        num_lanes=8, num_cells=256, max_batch_tokens=64, num_threads=1, has_prefix_cache=False
    )
    max_tokens = min(120, 256 - prompt_tokens - 8)
    with SteppedEngine(changed_model, config) as small:
        sinks = {
            f"r{number}": submit(
                small, f"r{number}", SETS[number % len(SETS)], max_tokens=max_tokens, ignore_eos=True
            )
            for number in range(7)
        }
        for _ in range(40):
            small.core.step()
            small.check()
        small.cancel("r1")
        small.hold("r2")
        for _ in range(40):
            small.core.step()
            small.check()
        small.resume("r2")
        small.run()
        assert small.core.statistics(is_alive=True).total_preemptions > 0
        for name, sink in sinks.items():
            if name == "r1":
                assert isinstance(sink.events[-1], Dropped)
            else:
                assert isinstance(sink.events[-1], Finished)
                assert len(sink.token_ids) == max_tokens
        small.check_all_free()


def test_an_adapter_that_is_not_there_fails_its_request_alone(engine: SteppedEngine) -> None:
    unknown = submit(engine, "unknown", (AppliedAdapter("three", 1.0),))
    known = submit(engine, "known", SETS[1], max_tokens=4)
    engine.run()
    assert isinstance(unknown.events[-1], Failed)
    assert not any(isinstance(event, TokenBatch) for event in unknown.events)
    assert isinstance(known.events[-1], Finished)


@pytest.mark.parametrize("adapters", SETS, ids=str)
def test_drafts_are_checked_under_the_adapters_of_their_answer(
    changed_model: LlamaModel, adapters: AdapterSet
) -> None:
    """Under each set the model repeats other things, and what is guessed changes nothing of them."""
    namespace = adapter_namespace(adapters)
    with GuessingEngine(changed_model) as guessing:
        sinks = []
        for speculation in (None, LOOKUP):
            sink = guessing.submit(
                "a",
                ALPHABET,
                namespace=namespace,
                adapters=adapters,
                max_tokens=100,
                sampling=REPEATING,
                ignore_eos=True,
                speculation=speculation,
            )
            guessing.run()
            guessing.check()
            sinks.append(sink)
        plain, guessed = sinks
        assert guessed.token_ids == plain.token_ids
        assert num_guessed([guessed])[0] > 0
        guessing.check_all_free()


def test_drafts_under_several_sets_at_once_never_meet_in_a_batch(changed_model: LlamaModel) -> None:
    """Drafts of one set's turn are forgotten in nobody else's, and all answers are whole."""
    with GuessingEngine(changed_model) as guessing:
        sinks = [
            guessing.submit(
                f"r{number}",
                ALPHABET,
                namespace=adapter_namespace(adapters),
                adapters=adapters,
                max_tokens=60,
                sampling=REPEATING,
                ignore_eos=True,
                speculation=LOOKUP if number % 2 else None,
            )
            for number, adapters in enumerate((*SETS[:2], *SETS[:2]))
        ]
        while guessing.core.step():
            guessing.check()
        assert [len(sink.token_ids) for sink in sinks] == [60] * len(sinks)
        guessing.check_all_free()


def test_many_answers_under_a_set_with_drafts_cost_one_prefill(changed_model: LlamaModel) -> None:
    with GuessingEngine(changed_model) as guessing:
        sinks = [
            guessing.submit(
                f"r{number}",
                ALPHABET,
                namespace=adapter_namespace(SETS[1]),
                adapters=SETS[1],
                max_tokens=60,
                sampling=replace(REPEATING, seed=number),
                ignore_eos=True,
                speculation=LOOKUP,
                group="g",
            )
            for number in range(4)
        ]
        while guessing.core.step():
            guessing.check()
        num_prompt = len(changed_model.tokenizer.tokenize(ALPHABET, add_special=True, parse_special=True))
        statistics = guessing.core.statistics(is_alive=True)
        assert statistics.total_prefill_tokens == num_prompt + len(sinks) - 1
        assert [len(sink.token_ids) for sink in sinks] == [60] * len(sinks)
        assert num_guessed(sinks)[0] > 0
        guessing.check_all_free()


@pytest.mark.parametrize(
    "metadata",
    [
        {"general.type": "model"},
        {"general.type": None},
        {"general.type": 7},
        {"general.architecture": "gemma"},
        {"general.architecture": "no such thing"},
        {"adapter.type": "dora"},
        {"adapter.type": 7},
        {"adapter.lora.alpha": "sixteen"},
        {"adapter.lora.alpha": 16},
        {"adapter.alora.invocation_tokens": [1, 2]},
    ],
    ids=str,
)
def test_what_is_no_adapter_for_the_model_is_refused_by_name_and_nothing_dies(
    tiny_model: LlamaModel, tmp_path: Path, metadata: dict[str, object]
) -> None:
    check_refused(
        tiny_model, write_adapter(tiny_model.path, tmp_path / "bad.gguf", seed=1, metadata=metadata)
    )


def check_refused(model: LlamaModel, bad: Path) -> None:
    """Nothing was loaded, and `model` still computes: everybody who comes later tests that."""
    with pytest.raises(ModelLoadError, match="'polite'"):
        model.load_adapters({"polite": bad})
    assert model.adapters.buffers == ()


@pytest.mark.parametrize("case", ["shapes", "cut", "empty", "text", "missing", "of a wider model"])
def test_files_that_are_damaged_or_of_another_model(
    tiny_model: LlamaModel, model_path: Path, tmp_path: Path, case: str
) -> None:
    bad = tmp_path / "bad.gguf"
    if case == "shapes":
        write_adapter(tiny_model.path, bad, seed=1, reshape=0.5)
    elif case == "of a wider model":
        write_adapter(model_path, bad, seed=1, changed=("attn_q",))
    elif case != "missing":
        whole = write_adapter(tiny_model.path, tmp_path / "whole.gguf", seed=1).read_bytes()
        bad.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"not a model\n"}[case])
    check_refused(tiny_model, bad)
