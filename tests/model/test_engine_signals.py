"""Signals of a real model: of the raw logits, whatever sampling does to them afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from inference.domain.backend import HoldReason
from inference.domain.events import Signals
from inference.domain.requests import SamplingParams
from inference.domain.signals import SignalRequest, SignalWindow, TokenSignal
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from inference.engine.plan import StepPlan, StepResult
from tests.model.stepped_engine import SteppedEngine, chat

CONFIG = EngineConfig(num_threads=1, num_lanes=3, num_cells=1024)
MEDDLING = SamplingParams(temperature=0.0, logit_bias=((100, -50.0), (200, 30.0)), repeat_penalty=1.8, seed=1)


def test_they_are_of_the_models_own_distribution(model: LlamaModel) -> None:
    """As float64 has it; that the row is not yet biased is held below."""
    expected: list[tuple[float, float]] = []
    with SteppedEngine(model, CONFIG) as engine:
        measure = engine.runner._measure
        found: list[TokenSignal] = []

        def watch(plan: StepPlan, logits: np.ndarray) -> dict[int, TokenSignal]:
            exact = logits[0].astype(np.float64)
            gaps = exact - exact.max()
            shares = np.exp(gaps) / np.exp(gaps).sum()
            expected.append((-float((shares * np.log(shares)).sum()), -float(np.sort(gaps)[-2])))
            signals = measure(plan, logits)
            found.extend(signals.values())
            return signals

        engine.runner._measure = watch  # type: ignore[method-assign]
        sink = engine.submit(
            "r",
            chat("Tell me about rivers."),
            max_tokens=8,
            sampling=MEDDLING,
            ignore_eos=True,
            signals=SignalRequest(wants_hold=False),
        )
        engine.run()
        engine.check_all_free()
    assert len(expected) == 8
    for signal, (entropy, margin) in zip(found, expected, strict=True):
        assert signal.entropy == pytest.approx(entropy, abs=1e-3)
        assert signal.margin == pytest.approx(margin, abs=1e-4)
    (first,) = [event for event in sink.events if isinstance(event, Signals)]
    assert first.signal == found[0]


def test_what_is_drawn_from_is_not_what_is_measured(tiny_model: LlamaModel) -> None:
    """With this bias a model that is lost is certain of one token: that is drawn, and not told."""
    certain = SamplingParams(temperature=0.0, logit_bias=((100, 90.0),), seed=1)
    told = []
    with SteppedEngine(tiny_model, CONFIG) as engine:
        for name, sampling in (("plain", SamplingParams(temperature=0.0)), ("biased", certain)):
            sink = engine.submit(
                name,
                (50, 51, 52),
                max_tokens=1,
                sampling=sampling,
                ignore_eos=True,
                signals=SignalRequest(wants_hold=False),
            )
            engine.run()
            told += [event.signal for event in sink.events if isinstance(event, Signals)]
        assert sink.token_ids == [100]
    plain, biased = told
    assert isinstance(plain, TokenSignal) and isinstance(biased, TokenSignal)
    assert plain.entropy > 4.0
    assert biased.entropy == pytest.approx(plain.entropy, abs=0.01)
    assert biased.margin == pytest.approx(plain.margin, abs=0.01)


def test_only_those_who_ask_are_measured(model: LlamaModel) -> None:
    with SteppedEngine(model, CONFIG) as engine:
        rows: list[dict[int, TokenSignal]] = []
        run = engine.runner.run

        def watch(plan: StepPlan) -> StepResult:
            result = run(plan)
            if plan.outputs:
                rows.append(dict(result.signals))
            return result

        engine.runner.run = watch  # type: ignore[method-assign]
        engine.submit("silent", (50, 51, 52), max_tokens=6, ignore_eos=True)
        sink = engine.submit("asks", (60, 61), max_tokens=6, ignore_eos=True, signals=SignalRequest(rules=()))
        engine.run()
        assert not sink.token_ids
        engine.core.inbox.resume(engine.submissions["asks"], HoldReason.HOOK)
        engine.run()
        assert len(sink.token_ids) == 6
        assert [sorted(one) for one in rows if one] == [[1]]
        engine.check_all_free()


def test_random_weights_are_lost_and_the_window_says_so(tiny_model: LlamaModel) -> None:
    with SteppedEngine(tiny_model, CONFIG) as engine:
        sampling = SamplingParams(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, seed=3)
        sink = engine.submit(
            "r",
            (50, 51, 52),
            max_tokens=50,
            sampling=sampling,
            ignore_eos=True,
            signals=SignalRequest(wants_first_token=False, wants_hold=False),
        )
        engine.run()
    windows = [event for event in sink.events if isinstance(event, Signals)]
    assert [event.num_decoded for event in windows] == [12, 44]
    assert isinstance(windows[1].signal, SignalWindow)
    assert windows[1].signal.num_high_entropy == windows[1].signal.num_tokens == 16
    assert windows[1].signal.max_entropy <= np.log(tiny_model.tokenizer.num_tokens) + 1e-3
