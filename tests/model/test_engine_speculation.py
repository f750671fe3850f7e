"""Drafts over the real thing: answers token by token as without them, whatever is asked of the drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from inference.domain.constraint import JsonSchema
from inference.domain.events import TokenBatch
from inference.domain.requests import SamplingParams
from inference.domain.speculation import SpeculationMode, SpeculationRequest
from inference.engine.config import EngineConfig
from inference.engine.core import EngineCore
from inference.engine.drafting.draft_governor import DraftAccount, DraftGovernor, StepBudget
from inference.engine.llama import LlamaConstraintCompiler, LlamaModel
from tests.model.stepped_engine import GREEDY, SteppedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

# Each token by itself and several in a batch add up in another order: with F32 weights and cells that moves
# logits in the fourth decimal, so near-ties, which decide otherwise, are rare.
CONFIG = EngineConfig(num_threads=1, num_lanes=4, num_cells=4096, target_step_s=1e6)
LOOKUP = SpeculationRequest(SpeculationMode.PROMPT_LOOKUP, 6)
# The tiny model says nothing that makes sense; whatever it says, it finds most of it here.
ALPHABET = "the cat sat on the mat and the dog sat on the log and " * 6


class EveryGuess(DraftGovernor):
    """Lets every draft pass, whatever it costs: what is tested here is what drafts do to answers."""

    def begin_step(self, num_sequences: int, max_rows: int) -> StepBudget:
        return _EveryGuess(self, num_sequences, max_rows)


class _EveryGuess(StepBudget):
    def allowed(self, account: DraftAccount, grade: int, num_tokens: int, *, drafting_s: float = 0.0) -> int:
        return min(num_tokens, self.num_left)

    def expected_saving_s(
        self, account: DraftAccount, grade: int, num_tokens: int, *, drafting_s: float
    ) -> float:
        return 1e6


class GuessingEngine(SteppedEngine):
    def __init__(self, model: LlamaModel, config: EngineConfig = CONFIG) -> None:
        super().__init__(model, config)
        admission, clock = self.admission, self.core._clock
        self.core = EngineCore(self.runner, config, admission, clock, self._deliver, governor=EveryGuess())


@pytest.fixture(scope="module")
def engine(tiny_model: LlamaModel) -> Iterator[GuessingEngine]:
    with GuessingEngine(tiny_model) as made:
        yield made
        made.check_all_free()


def num_guessed(sinks: list[RecordingSink]) -> tuple[int, int]:
    batches = [event for sink in sinks for event in sink.events if isinstance(event, TokenBatch)]
    return sum(one.num_drafted for one in batches), sum(one.num_accepted for one in batches)


def logprobs_of(sink: RecordingSink) -> list[tuple[int, float]]:
    batches = [event for event in sink.events if isinstance(event, TokenBatch)]
    pairs = [pair for one in batches for pair in zip(one.token_ids, one.logprobs, strict=False)]
    return [(token_id, one.logprob) for token_id, one in pairs]


# A narrow choice makes a random model repeat itself, and so its tokens can be guessed.
SAMPLINGS = {
    "greedy": GREEDY,
    "top_k": SamplingParams(temperature=0.3, top_k=2, top_p=1.0, min_p=0.0, seed=5),
    "wide": SamplingParams(temperature=0.05, top_k=0, top_p=0.3, min_p=0.0, seed=6),
    "penalties": SamplingParams(
        temperature=0.0, repeat_penalty=1.02, repeat_last_n=8, frequency_penalty=0.01
    ),
    "stages": SamplingParams(temperature=0.3, top_k=3, xtc_probability=0.5, xtc_threshold=0.1, seed=7),
    "mirostat": SamplingParams(temperature=0.5, mirostat_mode=2, mirostat_entropy=0.5, seed=8),
    "bias": SamplingParams(temperature=0.0, logit_bias=((260, 3.0), (28, 2.5)), seed=9),
}


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS.keys())
def test_answers_are_those_without_drafts(engine: GuessingEngine, sampling: SamplingParams) -> None:
    """Also where tokens are drawn at random: as many random numbers in the same order, penalties that see
    the same past."""
    sinks = []
    for speculation in (None, LOOKUP):
        sink = engine.submit(
            "a", ALPHABET, max_tokens=120, sampling=sampling, ignore_eos=True, speculation=speculation
        )
        engine.run()
        engine.check()
        sinks.append(sink)
    plain, guessed = sinks
    assert guessed.token_ids == plain.token_ids
    assert len(guessed.token_ids) == 120
    assert num_guessed([plain]) == (0, 0)
    assert num_guessed([guessed])[0] > 0


def test_guesses_that_were_right_are_not_drawn_one_by_one(engine: GuessingEngine) -> None:
    sink = engine.submit("a", ALPHABET, max_tokens=200, ignore_eos=True, speculation=LOOKUP)
    engine.run()
    num_drafted, num_accepted = num_guessed([sink])
    assert num_accepted > 50
    num_batches = sum(isinstance(event, TokenBatch) for event in sink.events)
    assert num_batches == len(sink.token_ids) - num_accepted < 150
    statistics = engine.core.statistics(is_alive=True)
    assert statistics.total_drafted_tokens >= num_drafted


def test_logprobs_are_there_for_each_token(engine: GuessingEngine) -> None:
    sinks = []
    for speculation in (None, LOOKUP):
        sinks.append(
            engine.submit(
                "a", ALPHABET, max_tokens=60, num_top_logprobs=2, ignore_eos=True, speculation=speculation
            )
        )
        engine.run()
    plain, guessed = (logprobs_of(sink) for sink in sinks)
    assert len(guessed) == len(plain) == 60
    for (token_id, value), (other_id, other) in zip(plain, guessed, strict=True):
        assert token_id == other_id
        assert value == pytest.approx(other, abs=0.02)


def test_the_end_is_put_off_as_long_as_asked(engine: GuessingEngine, tiny_model: LlamaModel) -> None:
    """Every way to the end is open after `min_tokens`: there, at once, it is taken."""
    ends = tuple((token_id, 100.0) for token_id in sorted(tiny_model.tokenizer.end_token_ids))
    sampling = replace(GREEDY, logit_bias=ends)
    for speculation in (None, LOOKUP):
        sink = engine.submit(
            "a", ALPHABET, max_tokens=100, min_tokens=33, sampling=sampling, speculation=speculation
        )
        engine.run()
        assert len(sink.token_ids) == 33
    assert num_guessed([sink])[0] > 0


def test_constraints_are_kept_and_force_what_they_force(
    engine: GuessingEngine, tiny_model: LlamaModel
) -> None:
    compiler = LlamaConstraintCompiler(tiny_model.tokenizer)
    try:
        schema = {
            "type": "object",
            "properties": {
                "names": {
                    "type": "array",
                    "items": {"enum": ["Rosencrantz", "Guildenstern"]},
                    "minItems": 12,
                    "maxItems": 12,
                }
            },
            "required": ["names"],
            "additionalProperties": False,
        }
        constraint = compiler.compile(JsonSchema(schema))
        sinks = []
        for speculation in (None, LOOKUP):
            sink = engine.submit(
                "a", ALPHABET, max_tokens=400, constraint=constraint, speculation=speculation
            )
            engine.run()
            engine.check()
            sinks.append(sink)
    finally:
        compiler.close()
    plain, guessed = sinks
    assert guessed.token_ids == plain.token_ids
    assert type(guessed.endings[0]) is type(plain.endings[0])
    assert num_guessed([guessed])[0] > 0


def test_several_at_once_with_and_without_drafts(engine: GuessingEngine) -> None:
    sinks = [
        engine.submit(
            f"r{number}", ALPHABET, max_tokens=60 + number, ignore_eos=True, speculation=speculation
        )
        for number, speculation in enumerate([LOOKUP, None, LOOKUP, LOOKUP])
    ]
    for _ in range(20):
        engine.core.step()
        engine.check()
    engine.cancel("r2")
    engine.run()
    engine.check()
    assert [len(sinks[number].token_ids) for number in (0, 1, 3)] == [60, 61, 63]
    assert sinks[0].token_ids[:50] == sinks[1].token_ids[:50] == sinks[3].token_ids[:50]
    assert min(num_guessed([sinks[0]])[1], num_guessed([sinks[3]])[1]) > 0


def test_a_prompt_that_goes_on_from_a_guessed_answer_finds_its_cells(engine: GuessingEngine) -> None:
    """What is left in the cache behind an answer are the cells of its tokens, and of no rejected one."""
    tokens = tuple(engine.model.tokenizer.tokenize(ALPHABET, add_special=True, parse_special=True))
    first = engine.submit("a", tokens, max_tokens=80, ignore_eos=True, speculation=LOOKUP)
    engine.run()
    longer = (*tokens, *first.token_ids)
    again = engine.submit("b", longer, max_tokens=30, ignore_eos=True)
    engine.run()
    fresh = engine.submit("c", longer, max_tokens=30, ignore_eos=True, namespace="another")
    engine.run()
    assert again.events[0].num_cached_tokens >= len(longer) - 2  # type: ignore[union-attr]
    assert again.token_ids == fresh.token_ids
