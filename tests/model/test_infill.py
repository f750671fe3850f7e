"""Filling in, with the tokens that a model's file names."""

from __future__ import annotations

from pathlib import Path

from inference.domain.tokenizer import InfillTokens
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel
from inference.prompting.prompt import PromptBuilder, PromptTimes
from tests.model.stepped_engine import SteppedEngine
from tests.model.tiny_model import write_tiny_model

CONFIG = EngineConfig(num_lanes=2, num_cells=512, num_threads=1)
IDS = {
    "tokenizer.ggml.fim_pre_token_id": 3,  # <repo_name>
    "tokenizer.ggml.fim_suf_token_id": 5,  # <file_sep>
    "tokenizer.ggml.fim_mid_token_id": 6,  # <filename>
}


def test_a_model_that_can_fill_in(model_path: Path, tmp_path: Path) -> None:
    path = write_tiny_model(model_path, tmp_path / "infill.gguf", extra_ids=IDS)
    loaded = LlamaModel.load(path, CONFIG)
    try:
        tokenizer = loaded.tokenizer
        assert tokenizer.infill == InfillTokens(3, 5, 6)
        prompts = PromptBuilder(tokenizer, loaded.description("tiny"))
        ids = prompts.infill("def add(a, b):", "\n\nprint(add(1, 2))", PromptTimes())
        assert (ids[0], ids[-1], ids.count(5)) == (3, 6, 1)
        written = b"".join([tokenizer.pieces[token_id] for token_id in ids])
        assert written == b"def add(a, b):\n\nprint(add(1, 2))"
        with SteppedEngine(loaded, CONFIG) as engine:
            sink = engine.submit("infill", ids, max_tokens=4, ignore_eos=True)
            engine.run()
            assert len(sink.token_ids) == 4
    finally:
        loaded.close()


def test_a_model_without_the_tokens_knows_that(model: LlamaModel, tiny_model: LlamaModel) -> None:
    assert model.tokenizer.infill is None
    assert tiny_model.tokenizer.infill is None
