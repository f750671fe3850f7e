"""How sure the model is: what policies want to hear of it, asked of the engine, and what the engine tells."""

from __future__ import annotations

from collections.abc import Iterator

from hooks.contracts.exchange import HookExchange
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from inference.domain.events import Signals
from inference.domain.signals import SignalRequest, SignalRule, SignalWindow, TokenSignal


def signal_request(exchange: HookExchange) -> SignalRequest | None:
    """None where no policy looks into a running generation: then nothing is measured. A rule keeps its place
    in `window_rules`."""
    rules: tuple[SignalRule, ...] = ()
    if exchange.wants(HookPoint.MID_GENERATION):
        rules = tuple(
            [
                SignalRule(
                    window_tokens=rule.window_tokens,
                    min_decoded=rule.min_decoded,
                    min_between=rule.min_between,
                    high_entropy=rule.high_entropy,
                    min_high_share=rule.min_high_share,
                    min_repetitions=rule.min_repetitions,
                    every_tokens=rule.every_tokens,
                )
                for rule in exchange.window_rules
            ]
        )
    wants_first = exchange.wants(HookPoint.AFTER_PREFILL)
    if not wants_first and not rules:
        return None
    return SignalRequest(wants_first_token=wants_first, rules=rules)


def policy_signals(event: Signals) -> Iterator[FirstTokenSignals | WindowSignals]:
    """All that the engine tells at one token, in its order."""
    for told in (event.signal, *event.others):
        if isinstance(told, TokenSignal):
            yield FirstTokenSignals(entropy=told.entropy, margin=told.margin)
        else:
            yield _window(told, event.num_decoded)


def _window(window: SignalWindow, num_decoded: int) -> WindowSignals:
    return WindowSignals(
        num_decoded=num_decoded,
        num_tokens=window.num_tokens,
        mean_entropy=window.mean_entropy,
        max_entropy=window.max_entropy,
        mean_margin=window.mean_margin,
        min_margin=window.min_margin,
        num_high_entropy=window.num_high_entropy,
        num_repetitions=window.num_repetitions,
        rules=window.rules,
    )
