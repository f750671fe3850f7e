"""What policies want to hear of how sure the model is, and what they hear: number for number."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowRule, WindowSignals
from inference.domain.events import Signals
from inference.domain.signals import SignalRequest, SignalRule, SignalWindow, TokenSignal
from inference.hooking.signals import policy_signals, signal_request
from tests.scripted_hooks import ScriptedExchange

FIRST, WINDOWS = HookPoint.AFTER_PREFILL, HookPoint.MID_GENERATION
# No two are alike, so that none can stand for another.
RULE = (8, 5, 21, 3.5, 0.5, 2, 64)


def asked_by(*points: HookPoint, rules: tuple[WindowRule, ...] = (WindowRule(),)) -> SignalRequest | None:
    exchange = ScriptedExchange(points=points)
    exchange.window_rules = rules
    return signal_request(exchange)


def test_the_rule_that_holds_where_a_policy_says_nothing() -> None:
    assert astuple(WindowRule()) == (16, 12, 32, 4.0, 0.75, 3, 0)
    assert asked_by(WINDOWS) == SignalRequest(False, (SignalRule(*astuple(WindowRule())),))


def test_a_policys_own_numbers_reach_the_engine_each_in_its_place() -> None:
    rules = (WindowRule(), WindowRule(*RULE))
    assert asked_by(FIRST, WINDOWS, rules=rules) == SignalRequest(True, (SignalRule(), SignalRule(*RULE)))


@pytest.mark.parametrize("point", [one for one in HookPoint if one not in {FIRST, WINDOWS}])
def test_who_looks_into_no_running_generation_has_nothing_measured(point: HookPoint) -> None:
    assert asked_by(point) is None


def test_what_was_measured_is_told_number_for_number_and_the_first_token_first() -> None:
    window = SignalWindow(15, 2.5, 5.5, 0.75, 0.125, 7, 3, rules=(0, 2))
    told = tuple(policy_signals(Signals(TokenSignal(1.5, 0.25), 40, True, 0.0, others=(window,))))
    assert told == (
        FirstTokenSignals(entropy=1.5, margin=0.25),
        WindowSignals(
            num_decoded=40,
            num_tokens=15,
            mean_entropy=2.5,
            max_entropy=5.5,
            mean_margin=0.75,
            min_margin=0.125,
            num_high_entropy=7,
            num_repetitions=3,
            rules=(0, 2),
        ),
    )
