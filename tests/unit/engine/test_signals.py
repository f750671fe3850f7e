"""When a hook hears of signals: the rule, its numbers, and the window."""

from __future__ import annotations

import pytest

from inference.domain.signals import MAX_WINDOW_TOKENS, SignalRequest, SignalRule, SignalWindow, TokenSignal
from inference.engine.signals import SignalWatch
from tests.unit.engine.scripted_engine_parts import LOST, SURE


class Watched:
    """A watch that is shown token after token; `told` has what came, by number of decoded tokens."""

    def __init__(
        self, *rules: SignalRule, wants_first: bool = False, window: int = 16, wants_hold: bool = True
    ) -> None:
        if not rules and window:
            rules = (SignalRule(window_tokens=window),)
        self.watch = SignalWatch(SignalRequest(wants_first, rules, wants_hold))
        self.told: dict[int, TokenSignal | SignalWindow] = {}
        self.others: dict[int, tuple[SignalWindow, ...]] = {}
        self.held: list[int] = []
        self._count = 0

    def show(
        self, signal: TokenSignal | None, num_tokens: int = 1, *, token_id: int | None = None
    ) -> Watched:
        for _ in range(num_tokens):
            self._count += 1
            shown = self._count if token_id is None else token_id
            event = self.watch.observe(shown, signal, 5.0, has_more=True)
            if event is not None:
                assert (event.num_decoded, event.at_ts) == (self._count, 5.0)
                self.told[self._count] = event.signal
                if event.others:
                    self.others[self._count] = event.others
                if event.is_held:
                    self.held.append(self._count)
        return self


def test_the_first_token_is_told_once() -> None:
    watched = Watched(wants_first=True, window=0).show(SURE, 100)
    assert watched.told == {1: SURE}
    assert watched.watch.is_over


def test_without_anything_to_tell_it_is_over_before_it_begins() -> None:
    watched = Watched(window=0)
    assert watched.watch.is_over
    assert watched.show(LOST, 50).told == {}


def test_a_sure_model_that_does_not_repeat_itself_is_never_interrupted() -> None:
    watched = Watched(wants_first=True).show(SURE, 500)
    assert list(watched.told) == [1]
    assert not watched.watch.is_over


def test_nothing_before_the_twelfth_token_and_then_not_for_thirty_two() -> None:
    assert list(Watched().show(LOST, 11).told) == []
    assert list(Watched().show(LOST, 110).told) == [12, 44, 76, 108]


@pytest.mark.parametrize(("num_lost", "fires"), [(11, False), (12, True), (13, True)])
def test_three_quarters_of_the_window_must_be_lost(num_lost: int, fires: bool) -> None:
    watched = Watched().show(SURE, 40).show(LOST, num_lost)
    assert bool(watched.told) == fires


def test_exactly_the_bound_is_not_high() -> None:
    assert Watched().show(TokenSignal(4.0, 0.0), 50).told == {}
    assert list(Watched().show(TokenSignal(4.0001, 0.0), 20).told) == [12]


@pytest.mark.parametrize(("num_same", "fires"), [(3, False), (4, True)])
def test_three_repetitions_inside_the_window(num_same: int, fires: bool) -> None:
    watched = Watched().show(SURE, 40).show(SURE, num_same, token_id=9999)
    assert bool(watched.told) == fires


def test_repetitions_that_have_left_the_window_do_not_count() -> None:
    watched = Watched(window=4).show(SURE, 11, token_id=7).show(SURE, 2)
    assert watched.told == {}


def test_its_numbers() -> None:
    watched = Watched(window=4).show(SURE, 20)
    watched.show(TokenSignal(6.0, 0.5)).show(TokenSignal(5.0, 0.25)).show(TokenSignal(4.5, 1.0))
    window = watched.told[23]
    assert window == SignalWindow(
        num_tokens=4,
        mean_entropy=4.0,
        max_entropy=6.0,
        mean_margin=4.75 / 4,
        min_margin=0.25,
        num_high_entropy=3,
        num_repetitions=0,
    )


def test_a_window_larger_than_the_answer_has_what_there_is() -> None:
    window = Watched(window=MAX_WINDOW_TOKENS).show(LOST, 12).told[12]
    assert isinstance(window, SignalWindow)
    assert window.num_tokens == 12


def test_a_token_without_a_signal_counts_as_decoded_only() -> None:
    watched = Watched(wants_first=True).show(None, 20)
    assert watched.told == {}
    assert list(watched.show(LOST, 2).told) == [21]
    assert isinstance(watched.told[21], TokenSignal)
    assert [window.num_tokens for window in watched.others[21]] == [1]


def test_a_window_of_one_token() -> None:
    assert list(Watched(window=1).show(SURE, 30).show(LOST).told) == [31]


def test_it_holds_where_that_is_wanted_and_something_is_to_come() -> None:
    assert Watched().show(LOST, 12).held == [12]
    assert Watched(wants_hold=False).show(LOST, 12).held == []
    watch = SignalWatch(SignalRequest())
    event = watch.observe(5, SURE, 0.0, has_more=False)
    assert event is not None
    assert not event.is_held


@pytest.mark.parametrize("size", [-1, 0, MAX_WINDOW_TOKENS + 1])
def test_a_window_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="window"):
        SignalRule(window_tokens=size)


def test_its_description() -> None:
    watched = Watched().show(SURE, 3)
    assert repr(watched.watch) == "<SignalWatch of 1 rules, 3 tokens seen>"
