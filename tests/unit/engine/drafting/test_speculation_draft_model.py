"""A draft model at the seam: when it is asked, what for, and what happens where it fails."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import replace

from inference.domain.requests import GenerationRequest
from inference.domain.speculation import SpeculationMode, SpeculationRequest
from inference.engine.core import EngineCore
from inference.engine.drafting.draft_model import DraftOrder
from inference.engine.sequence import Sequence
from tests.unit.engine.scripted_engine_parts import END_TOKEN, Engine, make_request, with_media


class ScriptedDraftModel:
    """Guesses what the scripted runner will say, but for every seventh token."""

    def __init__(self) -> None:
        self.token_s = 0.0
        self.prompt_token_s = 0.0
        self.behind = 0
        self.orders: list[int] = []
        self.forgotten: list[str] = []
        self.is_broken = False
        self.guess = lambda index: 999 if index % 7 == 6 else 100 + index

    def num_behind(self, sequence: Sequence) -> int:
        return self.behind

    def draft(self, orders: SequenceOf[DraftOrder]) -> list[tuple[int, ...]]:
        self.orders += [order.num_tokens for order in orders]
        if self.is_broken:
            raise RuntimeError("gone")
        return [
            tuple(self.guess(order.sequence.num_generated + place) for place in range(order.num_tokens))
            for order in orders
        ]

    def forget(self, sequence: Sequence) -> None:
        self.forgotten.append(sequence.request.request_id)


def engine(model: ScriptedDraftModel | None) -> Engine:
    made = Engine()
    made.runner.draft_model = model
    made.core = EngineCore(made.runner, made.config, made.admission, made.clock, made._deliver)
    return made


def drafting(name: str = "a", *, max_tokens: int = 40) -> GenerationRequest:
    speculation = SpeculationRequest(SpeculationMode.DRAFT_MODEL, 6)
    return replace(make_request(name, max_tokens=max_tokens), speculation=speculation)


def test_it_is_asked_for_all_who_want_it_and_told_when_they_end() -> None:
    model = ScriptedDraftModel()
    made = engine(model)
    sinks = [
        made.submit(drafting("a")),
        made.submit(make_request("b", max_tokens=40)),
        made.submit(drafting("c")),
    ]
    while made.core.step():
        made.check()
    for sink in sinks:
        assert sink.token_ids == [100 + index for index in range(40)]
    assert model.forgotten == ["a", "c"]
    assert max(model.orders) <= 6
    statistics = made.core.statistics(is_alive=True)
    assert 0 < statistics.total_accepted_tokens < statistics.total_drafted_tokens
    made.check_all_free()


def test_where_it_fails_answers_go_on_without_it() -> None:
    model = ScriptedDraftModel()
    model.is_broken = True
    made = engine(model)
    sink = made.submit(drafting(max_tokens=60))
    made.run()
    assert sink.token_ids == [100 + index for index in range(60)]
    assert len(model.orders) == 1, "it is left alone for a while"


def test_without_one_nothing_is_drafted() -> None:
    made = engine(None)
    sink = made.submit(drafting())
    made.run()
    assert len(sink.token_ids) == 40
    assert made.core.statistics(is_alive=True).total_drafted_tokens == 0


def test_it_is_not_asked_about_pictures() -> None:
    model = ScriptedDraftModel()
    made = engine(model)
    made.submit(with_media(replace(drafting(), prompt_token_ids=tuple(range(10, 20))), (2, 4, "cat")))
    made.run()
    assert not model.orders


def test_the_end_of_an_answer_is_no_guess() -> None:
    model = ScriptedDraftModel()
    model.guess = lambda index: END_TOKEN
    made = engine(model)
    sink = made.submit(drafting())
    made.run()
    assert len(sink.token_ids) == 40
    assert made.core.statistics(is_alive=True).total_drafted_tokens == 0


def test_a_long_text_is_only_read_where_the_rest_of_the_answer_is_worth_it() -> None:
    model = ScriptedDraftModel()
    model.behind, model.prompt_token_s = 5000, 0.01
    made = engine(model)
    made.runner.token_s = 0.01
    made.submit(drafting())
    made.run()
    assert not model.orders
    model.prompt_token_s = 1e-9
    made.submit(drafting("b"))
    made.run()
    assert model.orders


def test_one_that_is_too_slow_is_left_alone() -> None:
    model = ScriptedDraftModel()
    model.token_s = 1.0
    made = engine(model)
    made.runner.token_s = 0.01
    made.submit(drafting())
    made.run()
    assert not model.orders
