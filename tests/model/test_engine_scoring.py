"""How likely a prompt's own tokens are, by real logits."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from inference.domain.events import PromptScores, TokenBatch
from inference.domain.logprobs import TokenLogprobs
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from tests.model.stepped_engine import SteppedEngine, chat
from tests.model.tiny_recurrent_model import write_tiny_recurrent_model
from tests.model.watched_engine import WatchedEngine
from tests.unit.engine.scripted_engine_parts import RecordingSink

PROMPT = tuple(1000 + (index * 37) % 5000 for index in range(230))


def config(**sizes: int) -> EngineConfig:
    return EngineConfig(num_lanes=4, num_cells=2048, num_threads=1, **sizes)


def scores(sink: RecordingSink) -> list[TokenLogprobs]:
    return [one for event in sink.events if isinstance(event, PromptScores) for one in event.logprobs]


def test_a_prompts_tokens_are_as_likely_as_if_each_were_drawn(tiny_model: LlamaModel) -> None:
    with WatchedEngine(tiny_model, config()) as engine:
        sink = engine.submit("scored", PROMPT, max_tokens=3, ignore_eos=True, num_prompt_logprobs=5)
        engine.run()
        found = scores(sink)
        assert len(found) == len(PROMPT) - 1
        assert len(sink.token_ids) == 3
        for length in (1, 2, 63, 64, 65, 128, 229):
            engine.submit(f"first {length}", PROMPT[:length], max_tokens=1, namespace="none")
        engine.run()
        for length in (1, 2, 63, 64, 65, 128, 229):
            logits = engine.logits[f"first {length}"][0].astype(np.float64)
            highest = logits.max()
            expected = logits - highest - math.log(np.exp(logits - highest).sum())
            score = found[length - 1]
            assert score.logprob == pytest.approx(expected[PROMPT[length]], abs=1e-3)
            assert [logprob for _, logprob in score.top] == pytest.approx(
                np.sort(expected)[::-1][:5].tolist(), abs=1e-3
            )
        engine.check_all_free()


def test_an_answer_scored_as_a_prompt_is_as_likely_as_when_it_was_drawn(model: LlamaModel) -> None:
    with SteppedEngine(model, config()) as engine:
        prompt = tuple(model.tokenizer.tokenize(chat("Say hi."), add_special=True, parse_special=True))
        said = engine.submit("said", prompt, max_tokens=12, ignore_eos=True, num_top_logprobs=0)
        engine.run()
        drawn = [
            one.logprob for event in said.events if isinstance(event, TokenBatch) for one in event.logprobs
        ]
        scored = engine.submit("scored", (*prompt, *said.token_ids), max_tokens=0, num_prompt_logprobs=0)
        engine.run()
        assert scored.token_ids == []
        assert [one.logprob for one in scores(scored)[-12:]] == pytest.approx(drawn, abs=0.05)
        engine.check_all_free()


@pytest.mark.parametrize("num_lanes", [1, 4])
def test_streams_beside_it_and_few_rows(tiny_model: LlamaModel, num_lanes: int) -> None:
    sizes = EngineConfig(num_lanes=num_lanes, num_cells=2048, num_threads=1, has_prefix_cache=False)
    with SteppedEngine(tiny_model, sizes) as engine:
        streams = [
            engine.submit(f"s{index}", PROMPT[:5], max_tokens=60, ignore_eos=True) for index in range(3)
        ]
        scored = engine.submit("scored", PROMPT, max_tokens=2, ignore_eos=True, num_prompt_logprobs=1)
        while engine.core.step():
            engine.check()
        assert all(len(sink.token_ids) == 60 for sink in streams)
        assert len(scores(scored)) == len(PROMPT) - 1
        assert all(math.isfinite(one.logprob) and len(one.top) == 1 for one in scores(scored))
        engine.check_all_free()


def test_a_recurrent_model_scores_too(model_path: Path, tmp_path: Path) -> None:
    path = write_tiny_recurrent_model(model_path, tmp_path / "recurrent.gguf")
    recurrent = LlamaModel.load(path, config())
    try:
        with SteppedEngine(recurrent, config()) as engine:
            sink = engine.submit("scored", PROMPT[:40], max_tokens=2, ignore_eos=True, num_prompt_logprobs=0)
            engine.run()
            assert len(scores(sink)) == 39
            assert len(sink.token_ids) == 2
    finally:
        recurrent.close()
