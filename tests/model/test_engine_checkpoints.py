"""Models whose memory of a text cannot be cut go on from states that were copied, and answer the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inference.domain.admission import Submission
from tests.model.engine_kinds import KINDS, KindOfModel, TokenIds, loaded_kind, num_cached, some_prompt
from tests.model.test_engine_kinds import Asked, ask
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

WHOLE_KINDS = [name for name, kind in KINDS.items() if not kind.can_share]
SYSTEM = some_prompt(1, 150)


@pytest.fixture(scope="module", params=WHOLE_KINDS)
def kind(
    request: pytest.FixtureRequest, model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KindOfModel]:
    with loaded_kind(request.param, model_path, tmp_path_factory.mktemp("kinds")) as loaded:
        yield loaded


def engine_with_tier(kind: KindOfModel, **sizes: int) -> WatchedEngine:
    return kind.engine(host_cache_bytes=1 << 28, **sizes)


def ask_at(engine: WatchedEngine, name: str, prompt: TokenIds, asked: Asked, boundary: int) -> RecordingSink:
    """As `ask`, of a prompt that says where the template begins the answer."""
    sink = ask(engine, name, prompt, asked, 8)
    submission = engine.admission.waiting.pop()
    request = replace(submission.request, prefix_boundary=boundary)
    engine.submissions[name] = Submission(request, sink, 0.0)
    engine.admission.waiting.append(engine.submissions[name])
    return sink


def test_a_conversation_goes_on_from_its_last_state(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        asked: Asked = {}
        said = SYSTEM
        for turn in range(4):
            sink = ask(engine, f"turn {turn}", said, asked, 8)
            engine.run()
            engine.check()
            # The last token of an answer was drawn, but not computed.
            assert num_cached(sink) == (len(said) - 21 if turn else 0)
            said += (*sink.token_ids, *some_prompt(turn + 10, 20))
        kind.check(engine, asked)
        statistics = engine.core.statistics(is_alive=True).cold
        assert (statistics.total_restores, statistics.total_failures) == (3, 0)
        engine.check_all_free()


def test_where_the_answer_was_changed_the_boundary_is_gone_on_from(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        asked: Asked = {}
        ask_at(engine, "first", (*SYSTEM, 7, 8, 9), asked, boundary=150)
        engine.run()
        # Without what the template put before the answer, and with an answer that was not given so.
        second = ask_at(engine, "second", (*SYSTEM, *some_prompt(3, 40)), asked, boundary=187)
        engine.run()
        assert num_cached(second) == 150
        kind.check(engine, asked)
        engine.check_all_free()


def test_the_same_prompt_again_goes_on_from_near_its_end(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        asked: Asked = {}
        sinks = []
        for name in ("first", "again"):
            sinks.append(ask(engine, name, SYSTEM, asked, 8))
            engine.run()
        assert [num_cached(sink) for sink in sinks] == [0, 145]
        kind.check(engine, asked)
        engine.check_all_free()


def test_what_many_begin_with_is_kept_once_it_is_known(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        asked: Asked = {}
        sinks = []
        for index in range(4):
            prompt = (*SYSTEM, *some_prompt(index + 30, 60))
            sinks.append(ask(engine, f"r{index}", prompt, asked, 4))
            engine.run()
        # The second one shows where they part, the third one finds a state of that place.
        assert [num_cached(sink) for sink in sinks] == [0, 0, 150, 150]
        kind.check(engine, asked)
        engine.check_all_free()


def test_states_are_taken_back_beside_others_that_run(kind: KindOfModel) -> None:
    with engine_with_tier(kind, max_batch_tokens=32, max_prefill_tokens_beside_decodes=32) as engine:
        asked: Asked = {}
        ask(engine, "first", SYSTEM, asked, 8)
        engine.run()
        early = ask(engine, "early", some_prompt(2, 40), asked, 60)
        while len(early.token_ids) < 5:
            engine.core.step()
        for index in range(4):
            ask(engine, f"r{index}", (*SYSTEM, *some_prompt(index, 10)), asked, 8)
        while engine.core.step():
            engine.check()
        kind.check(engine, asked)
        assert engine.core.statistics(is_alive=True).cold.total_failures == 0
        engine.check_all_free()


def test_other_namespaces_find_nothing(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        for name in ("mine", "yours", ""):
            sink = engine.submit(name, SYSTEM, max_tokens=4, namespace=name, ignore_eos=True)
            engine.run()
            assert num_cached(sink) == 0
        engine.check_all_free()


def test_damaged_states_are_computed_instead(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        asked: Asked = {}
        ask(engine, "first", SYSTEM, asked, 8)
        engine.run()
        random = np.random.default_rng(1)
        for piece in engine.core._memory._checkpoints._tier.pieces():
            piece.data[:] = random.integers(0, 256, len(piece.data))
        again = ask(engine, "again", SYSTEM, asked, 8)
        engine.run()
        assert num_cached(again) == 0
        assert engine.core.statistics(is_alive=True).cold.total_failures == 1
        kind.check(engine, asked)
        engine.check_all_free()


def test_preempted_ones_go_on_from_their_states(kind: KindOfModel) -> None:
    if not kind.kind.has_cells:
        pytest.skip("its memory never runs out")
    with engine_with_tier(kind, num_cells=512) as engine:
        asked: Asked = {}
        for index in range(4):
            ask(engine, f"r{index}", some_prompt(index, 120), asked, 60)
        while engine.core.step():
            engine.check()
        statistics = engine.core.statistics(is_alive=True)
        assert statistics.total_preemptions > 0
        assert statistics.cold.total_restores > 0
        kind.check(engine, asked)
        engine.check_all_free()


def test_what_is_held_preempted_or_cancelled_on_the_way_leaves_nothing(kind: KindOfModel) -> None:
    with engine_with_tier(kind, max_batch_tokens=32, max_prefill_tokens_beside_decodes=32) as engine:
        asked: Asked = {}
        ask(engine, "first", SYSTEM, asked, 8)
        engine.run()
        again = ask(engine, "again", (*SYSTEM, *some_prompt(5, 100)), asked, 8)
        engine.submit("gone", (*SYSTEM, *some_prompt(6, 100)), max_tokens=8)
        engine.core.step()
        engine.hold("again")
        engine.cancel("gone")
        engine.core.step()
        engine.check()
        engine.resume("again")
        engine.run()
        assert len(again.token_ids) == 8
        kind.check(engine, asked)
        engine.check_all_free()


def test_a_small_tier_forgets_the_oldest(kind: KindOfModel) -> None:
    with engine_with_tier(kind) as engine:
        engine.submit("size", SYSTEM, max_tokens=1)
        engine.run()
        size = max(len(piece.data) for piece in engine.core._memory._checkpoints._tier.pieces())
    with kind.engine(host_cache_bytes=3 * size) as engine:
        for index in range(6):
            engine.submit(f"r{index}", some_prompt(index, 150), max_tokens=2, ignore_eos=True)
            engine.run()
            engine.check()
        statistics = engine.core.statistics(is_alive=True).cold
        assert 0 < statistics.num_bytes <= 3 * size
        assert statistics.total_evictions > 0
        old = engine.submit("old", some_prompt(0, 150), max_tokens=2)
        new = engine.submit("new", some_prompt(5, 150), max_tokens=2)
        engine.run()
        assert (num_cached(old), num_cached(new)) == (0, 145)
        engine.check_all_free()
