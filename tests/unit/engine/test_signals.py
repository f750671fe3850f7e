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


# -- rules of several hooks ---------------------------------------------------------------------


def test_each_rule_waits_by_itself_and_those_that_count_alike_share_a_window() -> None:
    patient, eager = SignalRule(min_between=100), SignalRule(min_decoded=6, min_between=10)
    watched = Watched(patient, eager).show(LOST, 40)
    told = {count: one.rules for count, one in watched.told.items() if isinstance(one, SignalWindow)}
    assert told == {6: (1,), 12: (0,), 16: (1,), 26: (1,), 36: (1,)}
    assert not watched.others
    assert Watched(SignalRule(), SignalRule(min_between=40)).show(LOST, 12).told[12] == SignalWindow(
        12, 4.5, 4.5, pytest.approx(0.1), 0.1, 12, 0, rules=(0, 1)
    )


def test_rules_that_count_differently_have_windows_of_their_own_in_one_event() -> None:
    rules = (SignalRule(), SignalRule(window_tokens=4), SignalRule(high_entropy=4.4), SignalRule())
    watched = Watched(*rules).show(SURE, 2).show(LOST, 10)
    first = watched.told[12]
    assert isinstance(first, SignalWindow)
    assert (first.num_tokens, first.num_high_entropy, first.rules) == (12, 10, (0, 3))
    assert [(one.num_tokens, one.rules) for one in watched.others[12]] == [(4, (1,)), (12, (2,))]


def test_the_first_token_and_a_window_of_it_come_together() -> None:
    watched = Watched(SignalRule(min_decoded=0, window_tokens=1), wants_first=True).show(LOST)
    assert watched.told == {1: LOST}
    assert [window.num_tokens for window in watched.others[1]] == [1]
    assert watched.held == [1]


def test_so_often_whatever_the_window_says() -> None:
    assert list(Watched(SignalRule(every_tokens=10)).show(SURE, 35).told) == [10, 20, 30]
    watched = Watched(SignalRule(every_tokens=10, min_between=15)).show(LOST, 50)
    assert list(watched.told) == [10, 20, 30, 40, 50]
    assert list(Watched(SignalRule(every_tokens=1)).show(SURE, 3).told) == [1, 2, 3]


def test_a_share_that_is_no_round_number_is_met_exactly() -> None:
    rule = SignalRule(window_tokens=10, min_high_share=0.3, min_decoded=10)
    assert list(Watched(rule).show(SURE, 20).show(LOST, 3).told) == [23]


def test_bounds_that_nothing_meets_leave_the_other_ones() -> None:
    only_lost = SignalRule(min_repetitions=1000)
    assert Watched(only_lost).show(SURE, 60, token_id=7).told == {}
    assert list(Watched(only_lost).show(LOST, 60, token_id=7).told) == [12, 44]
    only_repeating = SignalRule(min_high_share=2.0)
    assert Watched(only_repeating).show(LOST, 60).told == {}
    assert list(Watched(only_repeating).show(SURE, 50, token_id=7).told) == [12, 44]


def test_what_was_taken_back_does_not_count_and_is_not_told_again() -> None:
    watch = SignalWatch(SignalRequest(False, (SignalRule(every_tokens=3), SignalRule(min_repetitions=1))))
    told = []
    for token_id in (1, 2, 3, 3, 4, 5):
        event = watch.observe(token_id, SURE, 0.0, has_more=True)
        if event is not None:
            told.append(event.num_decoded)
            watch.take_back()
    # The third is drawn again, is not a repetition of what was thrown away, and is not told again.
    assert told == [3]
    assert repr(watch) == "<SignalWatch of 2 rules, 5 tokens seen>"


def test_no_token_repeats_the_one_before_what_was_put_in() -> None:
    rule = SignalRule(every_tokens=3, min_repetitions=1, min_decoded=4, min_between=0)
    watch = SignalWatch(SignalRequest(False, (rule,)))
    for token_id in (7, 8, 9):
        event = watch.observe(token_id, SURE, 0.0, has_more=True)
    assert event is not None
    watch.take_back()
    assert watch.observe(8, SURE, 0.0, has_more=True) is None
    assert watch.observe(1, SURE, 0.0, has_more=True) is None
    event = watch.observe(1, SURE, 0.0, has_more=True)
    assert event is not None
    assert isinstance(event.signal, SignalWindow)
    assert event.signal.num_repetitions == 1


@pytest.mark.parametrize(
    "numbers",
    [
        {"min_decoded": -1},
        {"min_between": -1},
        {"min_repetitions": -1},
        {"every_tokens": -1},
        {"high_entropy": float("nan")},
        {"min_high_share": float("inf")},
    ],
)
def test_a_rule_without_sense_is_refused(numbers: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a rule"):
        SignalRule(**numbers)  # type: ignore[arg-type]


def test_a_long_answer_is_counted_in_the_longest_window() -> None:
    rule = SignalRule(
        window_tokens=MAX_WINDOW_TOKENS, every_tokens=4000, min_high_share=2.0, min_repetitions=9999
    )
    watched = Watched(rule).show(LOST, 3500, token_id=7).show(SURE, 500)
    window = watched.told[4000]
    assert isinstance(window, SignalWindow)
    assert (window.num_tokens, window.num_high_entropy, window.num_repetitions) == (1024, 524, 523)
