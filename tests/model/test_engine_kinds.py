"""Whatever a model remembers a text by, everybody gets the answer that he would have got alone."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from inference.engine.plan import StepOutcome, StepPlan, StepResult
from inference.engine.sequence import PREFILLING, WAITING_FOR_PREFIX
from tests.model.engine_kinds import KINDS, KindOfModel, TokenIds, loaded_kind, num_cached, some_prompt
from tests.model.stepped_engine import SteppedEngine
from tests.model.test_engine_batching import distance
from tests.model.test_engine_speculation import LOOKUP, GuessingEngine, num_guessed
from tests.model.watched_engine import WatchedEngine, WatchedRunner
from tests.unit.engine.scripted_engine_parts import RecordingSink

NUM_TOKENS = 12
COMMON = some_prompt(1, 150)
# Shorter and longer than the window and than a batch; the longest wraps the window several times.
PROMPTS = {f"of {length}": some_prompt(length, length) for length in (1, 7, 40, 64, 130, 400)}
SMALL_BATCHES = {"max_batch_tokens": 32, "max_prefill_tokens_beside_decodes": 32}

Asked = dict[str, tuple[TokenIds, RecordingSink, int]]


@pytest.fixture(scope="module", params=KINDS)
def kind(
    request: pytest.FixtureRequest, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KindOfModel]:
    with loaded_kind(request.param, model_path, tmp_path_factory.mktemp("kinds")) as loaded:
        yield loaded


def ask(
    engine: SteppedEngine, name: str, prompt: TokenIds, asked: Asked, max_tokens: int = NUM_TOKENS
) -> RecordingSink:
    sink = engine.submit(name, prompt, max_tokens=max_tokens, ignore_eos=True)
    asked[name] = (prompt, sink, max_tokens)
    return sink


def step_until_said(engine: SteppedEngine, sink: RecordingSink, num_tokens: int) -> None:
    while len(sink.token_ids) < num_tokens:
        assert engine.core.step()
        engine.check()


# -- batching -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{}, SMALL_BATCHES, {"max_ubatch_tokens": 16}], ids=repr)
def test_batching_changes_nobodys_answer(kind: KindOfModel, sizes: dict[str, int]) -> None:
    with kind.engine(**sizes) as engine:
        asked: Asked = {}
        for name, prompt in PROMPTS.items():
            ask(engine, name, prompt, asked)
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)


def test_the_first_token_of_a_long_prompt_matters(kind: KindOfModel) -> None:
    """Or the other tests here would prove nothing."""
    prompt = PROMPTS["of 400"]
    one, other = kind.alone(prompt, 1).logits[0], kind.alone((5000, *prompt[1:]), 1).logits[0]
    may_be_drawn = np.isfinite(one)
    assert distance(one[may_be_drawn], other[may_be_drawn]) > 5 * kind.kind.noise


def test_newcomers_change_nobodys_answer(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        asked: Asked = {}
        early = ask(engine, "early", some_prompt(2, 90), asked, 40)
        for index, (name, prompt) in enumerate(PROMPTS.items()):
            step_until_said(engine, early, 1 + 4 * index)
            ask(engine, name, prompt, asked, 3 + index)
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


# -- prefix -------------------------------------------------------------------------------------


def test_the_same_prompt_again_gives_the_same_answer(kind: KindOfModel) -> None:
    with kind.engine() as engine:
        asked: Asked = {}
        for name in ("first", "second", "third"):
            ask(engine, name, COMMON, asked)
            engine.run()
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)
        if kind.kind.can_share:
            assert [num_cached(sink) for _, sink, _ in asked.values()] == [0, 149, 149]


def test_prompts_that_part_get_their_own_answers(kind: KindOfModel) -> None:
    with kind.engine() as engine:
        asked: Asked = {}
        for index, num_common in enumerate((150, 149, 120, 70, 100)):
            ask(engine, f"{num_common}", (*COMMON[:num_common], *some_prompt(index, 20)), asked)
            engine.run()
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)
        if kind.kind.can_share:
            assert [num_cached(sink) for _, sink, _ in asked.values()] == [0, 149, 120, 70, 100]


def test_a_conversation_goes_on_from_its_answers(kind: KindOfModel) -> None:
    with kind.engine() as engine:
        asked: Asked = {}
        said = COMMON
        for turn in range(4):
            sink = ask(engine, f"turn {turn}", said, asked)
            engine.run()
            engine.check()
            said += (*sink.token_ids, *some_prompt(turn, 9))
        # Where nothing can be shared, a state is copied at the end of the prompt and of the answer.
        assert any(num_cached(sink) > len(COMMON) for _, sink, _ in asked.values())
        engine.check_all_free()
        kind.check(engine, asked)


def test_beginnings_that_others_have_overwritten_are_not_taken_over(kind: KindOfModel) -> None:
    with kind.engine(max_cached_cells=2048) as engine:
        asked: Asked = {}
        long = some_prompt(18, 400)
        ask(engine, "long", long, asked)
        engine.run()
        ask(engine, "other", some_prompt(20, 400), asked, 100)
        engine.run()
        for num_common in (390, 100, 300, 400):
            ask(engine, f"{num_common}", (*long[:num_common], *some_prompt(19, 20)), asked)
            engine.run()
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)


def test_what_a_window_has_left_behind_is_not_taken_over_though_there_was_room(kind: KindOfModel) -> None:
    """llama.cpp gives such cells to others also where all are kept, if it finds them before empty ones."""
    with kind.engine(max_cached_cells=2048, max_cached_entries=3) as engine:
        asked: Asked = {}
        long = some_prompt(21, 400)
        for name, prompt in (
            ("first", some_prompt(22, 300)),
            ("long", long),
            ("short", some_prompt(23, 70)),
            # Takes the place of the first one, which is given up.
            ("another", some_prompt(24, 71)),
        ):
            ask(engine, name, prompt, asked, 2)
            engine.run()
        running = ask(engine, "running", some_prompt(25, 450), asked, 40)
        step_until_said(engine, running, 3)
        if kind.kind.can_share:
            (entry,) = [one for one, length in engine.lengths().items() if length == len(long) + 1]
            has_whole = engine.runner.num_piece_tokens == 64
            assert (engine.runner.save_state(entry, 128, 160) is not None) == has_whole
            assert engine.runner.save_state(entry, 320, 352) is not None
        ask(engine, "shares", (*long[:180], *some_prompt(26, 20)), asked)
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


@pytest.mark.parametrize("sizes", [{}, SMALL_BATCHES], ids=repr)
def test_simultaneous_prompts_that_begin_alike_wait_for_nothing_wrong(
    kind: KindOfModel, sizes: dict[str, int]
) -> None:
    with kind.engine(**sizes) as engine:
        asked: Asked = {}
        for index in range(5):
            ask(engine, f"r{index}", (*COMMON, *some_prompt(index, 1 + 11 * index)), asked)
        engine.core.step()
        states = [one.state for one in engine.core._scheduler.sequences]
        assert (WAITING_FOR_PREFIX in states) == kind.kind.can_share
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)


def test_a_prefix_is_taken_from_one_that_still_runs(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        asked: Asked = {}
        running = ask(engine, "running", COMMON, asked, 60)
        step_until_said(engine, running, 3)
        ask(engine, "shorter", (*COMMON[:100], *some_prompt(3, 5)), asked)
        step_until_said(engine, running, 20)
        ask(engine, "goes on", (*COMMON, *running.token_ids[:10], *some_prompt(4, 5)), asked)
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


def test_what_has_left_the_cells_comes_back_right_or_not_at_all(kind: KindOfModel) -> None:
    """Also where a window had left behind what was to be kept elsewhere, and others have taken that."""
    with kind.engine(num_cells=1024, max_cached_entries=4, min_cached_tokens=16) as engine:
        asked: Asked = {}
        prompts = [some_prompt(30 + index, 260 + 40 * index) for index in range(4)]
        for turn in range(3):
            for index, prompt in enumerate(prompts):
                for num_common in (len(prompt), 200)[: 1 + turn % 2]:
                    name = f"{index}, {num_common}, turn {turn}"
                    ask(engine, name, (*prompt[:num_common], *some_prompt(turn, 9)), asked, 4)
                    engine.run()
                    engine.check()
        assert engine.core.statistics(is_alive=True).cold.total_restores > 0
        engine.check_all_free()
        kind.check(engine, asked)


# -- cancel -------------------------------------------------------------------------------------


def test_cancel_frees_cells_in_every_phase_and_disturbs_nobody(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        asked: Asked = {}
        stays = ask(engine, "stays", some_prompt(5, 45), asked, 60)
        step_until_said(engine, stays, 2)
        decoding = engine.submit("decoding", some_prompt(6, 30), max_tokens=500, ignore_eos=True)
        step_until_said(engine, decoding, 5)
        engine.submit("prefilling", some_prompt(7, 900), max_tokens=5)
        engine.submit("waiting", some_prompt(7, 900), max_tokens=5)
        for _ in range(5):
            engine.core.step()
        for name in ("prefilling", "decoding", "waiting"):
            engine.cancel(name)
            engine.core.step()
            engine.check()
        assert engine.num_cells_in_use() == 45 + len(stays.token_ids) - 1
        # Somebody else gets their lanes and states.
        ask(engine, "next", some_prompt(8, 77), asked)
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


# -- preempt ------------------------------------------------------------------------------------


def test_preempted_ones_finish_with_their_own_answers(kind: KindOfModel) -> None:
    with kind.engine(num_cells=256, min_cached_tokens=16) as engine:
        asked: Asked = {}
        for index in range(5):
            ask(engine, f"r{index}", some_prompt(index, 40 + 7 * index), asked, 60)
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.total_failed_sequences == 0
        assert (statistics.total_preemptions > 0) == kind.kind.has_cells


class TroubledRunner(WatchedRunner):
    """Whose steps go wrong as a test wants: not computed at all, or computed and then lost on the way."""

    def __init__(self, kind: KindOfModel, **sizes: int | bool) -> None:
        self.troubles: deque[StepOutcome | None] = deque()
        super().__init__(kind.model, kind.kind.config(**sizes))

    def run(self, plan: StepPlan) -> StepResult:
        trouble = self.troubles.popleft() if self.troubles else None
        if trouble is StepOutcome.NO_CELLS:
            return StepResult(StepOutcome.NO_CELLS)
        if trouble is StepOutcome.FAILED:
            self._prepare(plan)
            self._context.decode(self._batch)
            raise RuntimeError("lost on the way")
        return super().run(plan)


class TroubledEngine(WatchedEngine):
    def __init__(self, kind: KindOfModel, **sizes: int | bool) -> None:
        config = kind.kind.config(**sizes)
        self.troubled = TroubledRunner(kind, **sizes)
        SteppedEngine.__init__(self, kind.model, config, runner=self.troubled)


@pytest.mark.parametrize("when", [0, 3, 8])
@pytest.mark.parametrize("outcome", [StepOutcome.NO_CELLS, StepOutcome.FAILED])
def test_a_step_that_went_wrong_costs_time_only(kind: KindOfModel, outcome: StepOutcome, when: int) -> None:
    with TroubledEngine(kind, **SMALL_BATCHES) as engine:
        asked: Asked = {}
        for name, prompt in PROMPTS.items():
            ask(engine, name, prompt, asked)
        for _ in range(when):
            engine.core.step()
        # After one that failed everybody is computed alone, and who fails at that has himself to blame.
        engine.troubled.troubles.extend([outcome, *[None] * 6, outcome])
        while engine.core.step():
            engine.check()
        assert not engine.troubled.troubles
        engine.check_all_free()
        kind.check(engine, asked)


# -- hold ---------------------------------------------------------------------------------------


def test_held_and_gone_on_with_it_says_the_same(kind: KindOfModel) -> None:
    with kind.engine(**SMALL_BATCHES) as engine:
        asked: Asked = {}
        held = ask(engine, "held", some_prompt(9, 100), asked, 30)
        engine.core.step()
        engine.hold("held")
        other = ask(engine, "other", some_prompt(10, 50), asked, 40)
        step_until_said(engine, other, 5)
        assert not held.token_ids
        engine.resume("held")
        step_until_said(engine, held, 5)
        engine.hold("held")
        step_until_said(engine, other, 20)
        third = ask(engine, "third", some_prompt(11, 60), asked, 20)
        step_until_said(engine, third, 10)
        said = list(held.token_ids)
        engine.run()
        assert held.token_ids == said
        engine.resume("held")
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


def test_held_without_room_it_is_computed_again(kind: KindOfModel) -> None:
    with kind.engine(num_cells=256, **SMALL_BATCHES) as engine:
        asked: Asked = {}
        held = ask(engine, "held", some_prompt(12, 90), asked, 24)
        step_until_said(engine, held, 5)
        engine.hold("held")
        ask(engine, "large", some_prompt(13, 200), asked, 8)
        engine.run()
        statistics = engine.core.statistics(is_alive=True)
        assert (statistics.num_held, statistics.total_preemptions) == (1, int(kind.kind.has_cells))
        engine.resume("held")
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


# -- abort --------------------------------------------------------------------------------------


class NodeCountdown:
    """Breaks a computation off after so many nodes of its graph, until it is told to let it go on."""

    def __init__(self, runner: WatchedRunner) -> None:
        self.num_left = -1
        self.has_struck = False
        self._callback = llama_cpp.llama_cpp.ggml_abort_callback(self._is_over)
        llama_cpp.llama_set_abort_callback(runner._context._pointer, self._callback, ctypes.c_void_p())

    def _is_over(self, _: object) -> bool:
        if self.num_left < 0:
            return False
        if self.num_left == 0:
            self.has_struck = True
            return True
        self.num_left -= 1
        return False


@pytest.mark.parametrize("num_nodes", [0, 25, 140])
def test_a_step_broken_off_anywhere_leaves_nothing_wrong(kind: KindOfModel, num_nodes: int) -> None:
    """In micro batches, so that a part of the step may be done; with one that stands still, which the step
    is not about, but whose state a batch may move."""
    sizes = {"max_batch_tokens": 64, "max_prefill_tokens_beside_decodes": 64, "max_ubatch_tokens": 16}
    with kind.engine(**sizes) as engine:
        assert isinstance(engine.runner, WatchedRunner)
        countdown = NodeCountdown(engine.runner)
        asked: Asked = {}
        held = ask(engine, "held", some_prompt(14, 60), asked)
        talks = ask(engine, "talks", some_prompt(15, 33), asked, 30)
        step_until_said(engine, held, 4)
        engine.hold("held")
        step_until_said(engine, talks, 6)
        ask(engine, "reads", some_prompt(16, 300), asked)
        ask(engine, "reads, too", some_prompt(17, 200), asked)
        for _ in range(3):
            countdown.num_left, countdown.has_struck = num_nodes, False
            engine.core.step()
            assert countdown.has_struck
            countdown.num_left = -1
            engine.check()
            engine.core.step()
        assert PREFILLING in [one.state for one in engine.core._scheduler.sequences]
        engine.resume("held")
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)


@pytest.mark.parametrize("trouble", ["cancelled leader", "broken off", "no cells", "failed"])
@pytest.mark.parametrize("when", [1, 4])
def test_siblings_answer_as_one_alone_would_whatever_befalls_them(
    kind: KindOfModel, trouble: str, when: int
) -> None:
    """In the middle of their prompt, and where all have just got it."""
    with TroubledEngine(kind, **SMALL_BATCHES) as engine:
        countdown = NodeCountdown(engine.troubled)
        asked: Asked = {}
        talks = ask(engine, "talks", some_prompt(40, 33), asked, 40)
        step_until_said(engine, talks, 3)
        prompt = some_prompt(41, 90)
        for index in range(6):
            sink = engine.submit(f"s{index}", prompt, max_tokens=NUM_TOKENS, ignore_eos=True, group="g")
            asked[f"s{index}"] = (prompt, sink, NUM_TOKENS)
        for _ in range(when):
            engine.core.step()
        if trouble == "cancelled leader":
            engine.cancel("s0")
            del asked["s0"]
        elif trouble == "broken off":
            countdown.num_left = 40
        else:
            engine.troubled.troubles.append(
                StepOutcome.NO_CELLS if trouble == "no cells" else StepOutcome.FAILED
            )
        engine.core.step()
        countdown.num_left = -1
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        kind.check(engine, asked)


# -- drafts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_beside", [0, 3])
def test_drafts_change_nobodys_answer(kind: KindOfModel, num_beside: int) -> None:
    """Rejected tokens are cut off again, where that can be; where it cannot, there are no drafts."""
    phrase = some_prompt(50, 12)
    prompts = [(*some_prompt(51 + index, 20), *phrase * (8 + index)) for index in range(1 + num_beside)]
    with GuessingEngine(kind.model, kind.kind.config()) as engine:
        sinks = [
            engine.submit(f"r{index}", prompt, max_tokens=60, ignore_eos=True, speculation=LOOKUP)
            for index, prompt in enumerate(prompts)
        ]
        while engine.core.step():
            engine.check()
        engine.check_all_free()
        assert (num_guessed(sinks)[0] > 0) == kind.kind.can_share
    for prompt, sink in zip(prompts, sinks, strict=True):
        kind.check_tokens(prompt, sink, 60)


# -- what the memory says -----------------------------------------------------------------------


@pytest.mark.parametrize("num_kept", [1, 90, 150, 390, 410])
def test_what_cannot_be_cut_is_removed_whole(kind: KindOfModel, num_kept: int) -> None:
    """`rewind` says how much is left, and that is right to go on from."""
    with kind.engine(num_lanes=1, max_ubatch_tokens=32, has_prefix_cache=False, **SMALL_BATCHES) as engine:
        asked: Asked = {}
        sink = ask(engine, "cut", PROMPTS["of 400"], asked, 30)
        step_until_said(engine, sink, 20)
        sequence = engine.core._scheduler.sequences[0]
        kept = engine.core._memory.rewind(sequence.sequence_id, num_kept)
        assert kept == (num_kept if kind.kind.can_cut(sequence.num_computed, num_kept) else 0)
        assert engine.lengths().get(sequence.sequence_id, 0) == kept
        sequence.resync(kept)
        engine.check()
        engine.run()
        engine.check_all_free()
        kind.check(engine, asked)


def test_the_memory_says_whether_it_can_be_shared(kind: KindOfModel) -> None:
    with kind.engine() as engine:
        assert engine.runner.can_share_prefixes == kind.kind.can_share
