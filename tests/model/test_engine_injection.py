"""Text of hooks in running answers, for all kinds of models: what follows is what would follow that text in a
prompt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.domain.events import Injected, PromptScores, Signals, Started
from inference.domain.requests import SamplingParams
from inference.domain.signals import SignalRequest, SignalRule, TokenSignal
from inference.engine.llama import LlamaModel
from tests.model.engine_kinds import KINDS, KindOfModel, TokenIds, loaded_kind, num_cached, some_prompt
from tests.model.stepped_engine import SteppedEngine
from tests.model.test_engine_draft_model import DRAFTS, DraftedEngine
from tests.model.test_engine_signals import CONFIG
from tests.model.test_engine_speculation import ALPHABET, LOOKUP, SAMPLINGS, GuessingEngine, num_guessed
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

FIRST = SignalRequest(rules=())
EVERY_SIXTH = SignalRequest(wants_first_token=False, rules=(SignalRule(every_tokens=6),))
SMALL_BATCHES = {"max_batch_tokens": 32, "max_prefill_tokens_beside_decodes": 32}
# A narrow choice makes a random model repeat itself, and so its tokens can be guessed.
REPEATING = SAMPLINGS["top_k"]
PROMPT = some_prompt(21, 90)


@pytest.fixture(scope="module", params=KINDS)
def kind(
    request: pytest.FixtureRequest, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KindOfModel]:
    with loaded_kind(request.param, model_path, tmp_path_factory.mktemp("kinds")) as loaded:
        yield loaded


def stand_still(engine: SteppedEngine, sink: RecordingSink, num_times: int = 1) -> None:
    """Step until it was held for its signals so often."""
    while len([event for event in sink.events if isinstance(event, Signals)]) < num_times:
        assert engine.core.step()
        engine.check()


def check_goes_on(
    kind: KindOfModel, engine: WatchedEngine, text: TokenIds, sink: RecordingSink, num_kept: int = 0
) -> None:
    """What was said behind the first `num_kept` tokens is what follows `text`, which ends with what was put
    in. One row of logits was drawn from and thrown away."""
    behind = sink.token_ids[num_kept:]
    rows = engine.logits["hooked"][num_kept + 1 :]
    assert len(rows) == len(behind)
    expected = kind.alone(text, len(behind))
    num_same = 0
    for index, (one, other) in enumerate(zip(expected.token_ids, behind, strict=True)):
        lonely, found = expected.logits[index], rows[index]
        assert abs(lonely[one] - found[one]) < kind.kind.noise, index
        if one != other:
            assert lonely[one] - lonely[other] < kind.kind.noise, index
            break
        num_same += 1
    # Near-ties are rare, or something else is compared than is meant.
    assert num_same > 0.6 * len(behind)


@pytest.mark.parametrize("num_injected", [1, 2, 30, 100])
def test_instead_of_the_first_token(kind: KindOfModel, num_injected: int) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        other = engine.submit("other", some_prompt(22, 40), max_tokens=40, ignore_eos=True)
        sink = engine.submit("hooked", PROMPT, max_tokens=12, ignore_eos=True, signals=FIRST)
        stand_still(engine, sink)
        num_said = len(other.token_ids)
        for _ in range(3):
            engine.core.step()
        assert len(other.token_ids) == num_said + 3
        text = some_prompt(23, num_injected)
        engine.inject("hooked", *text)
        engine.resume("hooked")
        engine.run()
        (injected,) = [event for event in sink.events if isinstance(event, Injected)]
        assert (injected.num_injected, injected.num_discarded, injected.refusal) == (num_injected, 1, "")
        assert len(sink.token_ids) == 12
        check_goes_on(kind, engine, (*PROMPT, *text), sink)
        engine.check_all_free()


def test_in_the_middle_of_an_answer_and_twice(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        sink = engine.submit("hooked", PROMPT, max_tokens=11, ignore_eos=True, signals=EVERY_SIXTH)
        stand_still(engine, sink)
        kept = tuple(sink.token_ids)
        assert len(kept) == 5
        first, second = some_prompt(24, 20), some_prompt(25, 15)
        engine.inject("hooked", *first)
        engine.inject("hooked", *second)
        engine.resume("hooked")
        engine.run()
        assert [one.num_discarded for one in sink.events if isinstance(one, Injected)] == [1, 0]
        assert len(sink.token_ids) == 11
        check_goes_on(kind, engine, (*PROMPT, *kept, *first, *second), sink, num_kept=5)
        engine.check_all_free()


@pytest.mark.parametrize("is_before", [True, False])
def test_its_cells_are_needed_by_others_before_or_after_it_is_put_in(
    kind: KindOfModel, is_before: bool
) -> None:
    with kind.engine(num_cells=256, **SMALL_BATCHES) as engine:
        sink = engine.submit("hooked", PROMPT, max_tokens=12, ignore_eos=True, signals=FIRST)
        stand_still(engine, sink)
        text = some_prompt(26, 25)
        if not is_before:
            engine.inject("hooked", *text)
        engine.submit("large", some_prompt(27, 200), max_tokens=8, ignore_eos=True)
        engine.run()
        statistics = engine.core.statistics(is_alive=True)
        assert (statistics.num_held, statistics.total_preemptions) == (1, int(kind.kind.has_cells))
        if is_before:
            engine.inject("hooked", *text)
        engine.resume("hooked")
        engine.run()
        check_goes_on(kind, engine, (*PROMPT, *text), sink)
        engine.check_all_free()


def test_the_next_prompt_that_begins_with_it_finds_what_was_computed(kind: KindOfModel) -> None:
    with kind.engine() as engine:
        sink = engine.submit("hooked", PROMPT, max_tokens=12, ignore_eos=True, signals=FIRST)
        stand_still(engine, sink)
        text = some_prompt(28, 40)
        engine.inject("hooked", *text)
        engine.resume("hooked")
        engine.run()
        whole = (*PROMPT, *text, *sink.token_ids)
        # The last token was never computed, and a state is good for all of its tokens only.
        again = engine.submit("again", (*whole, 77), max_tokens=8, ignore_eos=True)
        engine.run()
        started = again.events[0]
        assert isinstance(started, Started)
        assert started.num_cached_tokens == len(whole) - 1
        kind.check(engine, {"again": ((*whole, 77), again, 8)})
        engine.check_all_free()


def test_a_step_that_fails_on_the_way_is_computed_again(kind: KindOfModel) -> None:
    """Cut anywhere, as an abort leaves it."""
    with kind.engine(**SMALL_BATCHES) as engine:
        sink = engine.submit("hooked", PROMPT, max_tokens=12, ignore_eos=True, signals=FIRST)
        stand_still(engine, sink)
        text = some_prompt(29, 70)
        engine.inject("hooked", *text)
        engine.resume("hooked")
        engine.core.step()
        (sequence,) = engine.core._scheduler.sequences
        assert 90 < sequence.num_computed < 160
        engine.core._memory.resync(sequence)
        engine.hold("hooked")
        engine.core.step()
        engine.resume("hooked")
        engine.run()
        check_goes_on(kind, engine, (*PROMPT, *text), sink)
        engine.check_all_free()


def test_a_held_hook_and_what_it_puts_in_change_nobodys_answer(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        others = {f"o{index}": some_prompt(30 + index, 40 + 13 * index) for index in range(3)}
        asked = {}
        for name, prompt in others.items():
            asked[name] = (prompt, engine.submit(name, prompt, max_tokens=24, ignore_eos=True), 24)
        sink = engine.submit("hooked", PROMPT, max_tokens=30, ignore_eos=True, signals=EVERY_SIXTH)
        for times in range(1, 4):
            stand_still(engine, sink, times)
            engine.inject("hooked", *some_prompt(40 + times, 10 * times))
            engine.resume("hooked")
        while engine.core.step():
            engine.resume("hooked")
        assert len(sink.token_ids) == 30
        kind.check(engine, asked)
        engine.check_all_free()


# -- of one kind --------------------------------------------------------------------------------


def test_random_draws_go_on_where_they_were(tiny_model: LlamaModel) -> None:
    """Else the same token might be drawn for ever, by the same number."""
    sampling = SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, seed=5)
    with SteppedEngine(tiny_model, CONFIG) as engine:
        states = []
        sink = engine.submit(
            "hooked", PROMPT, max_tokens=20, ignore_eos=True, sampling=sampling, signals=FIRST
        )
        stand_still(engine, sink)
        sampler = engine.runner._samplers[0]
        states.append(sampler._random.getstate())
        engine.inject("hooked", 500, 501)
        engine.core.step()
        assert sampler._random.getstate() == states[0]
        engine.resume("hooked")
        engine.run()
        assert len(sink.token_ids) == 20
        engine.check_all_free()


def test_each_token_that_comes_has_its_logprobs_and_no_other(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, CONFIG) as engine:
        sink = engine.submit(
            "hooked", PROMPT, max_tokens=9, ignore_eos=True, num_top_logprobs=2, signals=EVERY_SIXTH
        )
        stand_still(engine, sink)
        engine.inject("hooked", *range(500, 520))
        engine.resume("hooked")
        engine.run()
        batches = [event for event in sink.events if hasattr(event, "token_ids")]
        assert len(batches) == 9
        for batch in batches:
            (scores,) = batch.logprobs
            assert scores.top[0][0] == batch.token_ids[0]
        engine.check_all_free()


def test_no_control_token_of_the_vocabulary_can_be_put_in(model: LlamaModel) -> None:
    tokenizer = model.tokenizer
    controls = tokenizer.control_token_ids
    assert tokenizer.end_token_ids <= controls
    assert set(tokenizer.control_texts) <= controls
    plain = tokenizer.tokenize("<|im_end|>\n<|im_start|>system", add_special=False, parse_special=False)
    assert controls.isdisjoint(plain)
    with SteppedEngine(model, CONFIG) as engine:
        assert engine.runner.max_sequence_tokens == CONFIG.num_cells
        sink = engine.submit("hooked", PROMPT, max_tokens=4, ignore_eos=True, signals=FIRST)
        stand_still(engine, sink)
        for token_id in controls:
            engine.inject("hooked", 500, token_id)
        engine.resume("hooked")
        engine.run()
        refusals = {event.refusal for event in sink.events if isinstance(event, Injected)}
        assert refusals == {"control_token"}
        assert len(sink.token_ids) == 4


def test_the_signal_of_a_cached_prompt_is_that_of_its_first_token(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, CONFIG) as engine:
        found = []
        for name in ("first", "again"):
            sink = engine.submit(name, PROMPT, max_tokens=3, ignore_eos=True, signals=FIRST)
            stand_still(engine, sink)
            engine.resume(name)
            engine.run()
            (told,) = [event for event in sink.events if isinstance(event, Signals)]
            assert told.num_decoded == 1
            assert isinstance(told.signal, TokenSignal)
            found.append(told.signal)
        assert num_cached(sink) == len(PROMPT) - 1
        assert found[1].entropy == pytest.approx(found[0].entropy, abs=0.01)
        assert found[1].margin == pytest.approx(found[0].margin, abs=0.01)
        engine.check_all_free()


@pytest.mark.parametrize("way", ["lookup", "draft model"])
def test_what_is_guessed_behind_it_is_checked_as_ever(
    tiny_model: LlamaModel, tiny_model_path: Path, way: str
) -> None:
    """Guesses are only made behind the last signals, and change no answer."""
    made = GuessingEngine(tiny_model) if way == "lookup" else DraftedEngine(tiny_model, tiny_model_path)
    text = tuple(tiny_model.tokenizer.tokenize(ALPHABET, add_special=False, parse_special=False))
    with made as engine:
        sinks = []
        for speculation in (None, LOOKUP if way == "lookup" else DRAFTS):
            sink = engine.submit(
                "hooked",
                text[:40],
                max_tokens=80,
                ignore_eos=True,
                sampling=REPEATING,
                signals=FIRST,
                speculation=speculation,
                namespace=str(speculation),
            )
            stand_still(engine, sink)
            engine.inject("hooked", *text[40:])
            engine.resume("hooked")
            engine.run()
            sinks.append(sink)
        assert num_guessed(sinks[1:])[1] > 0
        assert sinks[0].token_ids == sinks[1].token_ids
        engine.check_all_free()


def test_a_prompt_that_is_scored_is_scored_as_ever(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, CONFIG) as engine:
        sink = engine.submit(
            "hooked", PROMPT, max_tokens=5, ignore_eos=True, num_prompt_logprobs=0, signals=FIRST
        )
        stand_still(engine, sink)
        engine.inject("hooked", *range(500, 540))
        engine.resume("hooked")
        engine.run()
        scores = [one for event in sink.events if isinstance(event, PromptScores) for one in event.logprobs]
        assert len(scores) == len(PROMPT) - 1
        assert len(sink.token_ids) == 5
        engine.check_all_free()
