"""A second model in the process: it drafts, follows what was accepted, and changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inference.domain.requests import SamplingParams
from inference.domain.speculation import SpeculationMode, SpeculationRequest
from inference.engine.config import EngineConfig
from inference.engine.core import EngineCore
from inference.engine.llama import LlamaModel, LlamaRunner
from inference.engine.llama.draft_model import MAX_READ_AT_ONCE, LlamaDraftModel, check_vocabulary, load_draft
from inference.engine.load_error import ModelLoadError
from tests.model.stepped_engine import GREEDY, SteppedEngine
from tests.model.test_engine_speculation import ALPHABET, EveryGuess, num_guessed
from tests.model.tiny_model import write_tiny_model
from tests.model.tiny_recurrent_model import write_tiny_recurrent_model
from tests.unit.engine.scripted_engine_parts import RecordingSink

CONFIG = EngineConfig(num_threads=1, num_lanes=3, num_cells=2048, target_step_s=1e6)
DRAFTS = SpeculationRequest(SpeculationMode.DRAFT_MODEL, 5)


class DraftedEngine(SteppedEngine):
    """Every draft passes, whatever it costs."""

    def __init__(self, model: LlamaModel, draft_path: Path) -> None:
        runner = LlamaRunner(model, CONFIG, owns_model=False, draft=load_draft(draft_path, model, CONFIG))
        super().__init__(model, CONFIG, runner=runner)
        self.core = EngineCore(
            runner, CONFIG, self.admission, self.core._clock, self._deliver, governor=EveryGuess()
        )

    @property
    def draft_model(self) -> LlamaDraftModel:
        draft_model = self.runner.draft_model
        assert draft_model is not None
        return draft_model


@pytest.fixture(scope="module")
def twins(tiny_model: LlamaModel, tiny_model_path: Path) -> Iterator[DraftedEngine]:
    """The draft model is the model itself: it is nearly always right."""
    with DraftedEngine(tiny_model, tiny_model_path) as made:
        yield made
        made.check_all_free()


@pytest.fixture(scope="module")
def strangers(
    tiny_model: LlamaModel, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DraftedEngine]:
    """The draft model is another one, and hardly ever right."""
    path = write_tiny_model(model_path, tmp_path_factory.mktemp("drafts") / "other.gguf", num_layers=1)
    with DraftedEngine(tiny_model, path) as made:
        yield made
        made.check_all_free()


def ask(engine: DraftedEngine, speculation: SpeculationRequest | None, **fields: Any) -> RecordingSink:
    prompt = fields.pop("prompt", "Once upon a time")
    sink = engine.submit("a", prompt, ignore_eos=True, speculation=speculation, **fields)
    engine.run()
    engine.check()
    return sink


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        SamplingParams(temperature=0.7, top_k=5, seed=3),
        SamplingParams(temperature=0, repeat_penalty=1.3),
    ],
    ids=["greedy", "random", "penalties"],
)
def test_answers_are_those_without_a_draft_model(
    twins: DraftedEngine, strangers: DraftedEngine, sampling: SamplingParams
) -> None:
    for engine in (twins, strangers):
        plain = ask(engine, None, max_tokens=60, sampling=sampling)
        drafted = ask(engine, DRAFTS, max_tokens=60, sampling=sampling)
        assert drafted.token_ids == plain.token_ids
        assert num_guessed([drafted])[0] > 0


def test_a_good_one_is_mostly_right_and_a_bad_one_costs_no_token(
    twins: DraftedEngine, strangers: DraftedEngine
) -> None:
    num_drafted, num_accepted = num_guessed([ask(twins, DRAFTS, max_tokens=80)])
    assert num_accepted > 0.8 * num_drafted
    by_chance = SamplingParams(temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
    bad = ask(strangers, DRAFTS, max_tokens=80, sampling=by_chance)
    num_drafted, num_accepted = num_guessed([bad])
    assert num_accepted < num_drafted / 4
    assert len(bad.token_ids) == 80


def test_a_long_prompt_is_read_in_parts_before_anything_is_drafted(twins: DraftedEngine) -> None:
    tokens = tuple(twins.model.tokenizer.tokenize(ALPHABET * 6, add_special=True, parse_special=True))
    assert len(tokens) > 3 * MAX_READ_AT_ONCE
    sink = twins.submit("a", tokens, max_tokens=60, ignore_eos=True, speculation=DRAFTS)
    seen = []
    while twins.core.step():
        held = [len(one) for one in twins.draft_model._held.values()]
        seen += held
        twins.check()
    assert any(0 < one < len(tokens) for one in seen)
    assert num_guessed([sink])[1] > 0


def test_it_holds_the_tokens_of_its_sequences_and_nothing_of_ended_ones(twins: DraftedEngine) -> None:
    for number, text in enumerate(["Once", "Twice", "Thrice"]):
        twins.submit(f"r{number}", text, max_tokens=30 + number, ignore_eos=True, speculation=DRAFTS)
    draft = twins.draft_model
    for _ in range(6):
        twins.core.step()
        for sequence in twins.core._scheduler.sequences:
            lane = sequence.lane.index
            num_held = len(draft._held.get(lane, ()))
            assert draft._context.last_position(lane) + 1 == num_held
            num_known = draft._num_known.get(lane, 0)
            assert draft._held.get(lane, [])[:num_known] == sequence.first(num_known).tolist()
    twins.cancel("r1")
    twins.run()
    assert not draft._held
    assert all(draft._context.last_position(lane) == -1 for lane in range(CONFIG.num_lanes))


def test_its_memory_is_counted(twins: DraftedEngine) -> None:
    own, draft = twins.runner._context.memory, twins.draft_model.memory
    assert twins.runner.memory[0].kv_bytes == own[0].kv_bytes + draft[0].kv_bytes > own[0].kv_bytes


def test_a_failure_of_it_costs_no_answer(tiny_model: LlamaModel, tiny_model_path: Path) -> None:
    with DraftedEngine(tiny_model, tiny_model_path) as engine:
        plain = ask(engine, None, max_tokens=40)
        engine.draft_model.interrupt()
        assert ask(engine, DRAFTS, max_tokens=40).token_ids == plain.token_ids
        engine.check_all_free()


def test_one_that_cannot_take_back_what_it_read_is_refused(
    tiny_model: LlamaModel, model_path: Path, tmp_path: Path
) -> None:
    path = write_tiny_recurrent_model(model_path, tmp_path / "recurrent.gguf")
    draft = load_draft(path, tiny_model, CONFIG)
    with pytest.raises(ModelLoadError, match="cannot draft"):
        LlamaRunner(tiny_model, CONFIG, owns_model=False, draft=draft)
    assert draft.is_closed


@pytest.mark.parametrize(
    ("num_tokens", "ends", "pieces", "problem"),
    [
        (4, {2}, [b"a", b"b", b"", b"c"], "4 tokens"),
        (3, {1}, [b"a", b"b", b""], "ends its answers"),
        (3, {2}, [b"a", b"x", b""], "its token 1"),
    ],
)
def test_another_vocabulary_is_refused(
    num_tokens: int, ends: set[int], pieces: list[bytes], problem: str
) -> None:
    def tokenizer(num: int, end_ids: set[int], texts: list[bytes]) -> Any:
        return cast("Any", SimpleNamespace(num_tokens=num, end_token_ids=frozenset(end_ids), pieces=texts))

    target = tokenizer(3, {2}, [b"a", b"b", b""])
    check_vocabulary(tokenizer(3, {2}, [b"a", b"b", b""]), target, "small.gguf")
    with pytest.raises(ModelLoadError, match=problem):
        check_vocabulary(tokenizer(num_tokens, ends, pieces), target, "small.gguf")
