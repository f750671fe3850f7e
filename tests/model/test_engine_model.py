from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from inference.domain.errors import ServiceUnavailable
from inference.engine.config import EngineConfig
from inference.engine.llama import LlamaModel, LlamaRunner, model
from inference.engine.load_error import ModelLoadError


def test_a_description_says_what_the_file_says(model: LlamaModel) -> None:
    description = model.description("smollm2")
    assert description.id == "smollm2"
    assert description.trained_context == 8192
    assert description.num_cells == 16_384
    assert description.max_request_tokens == 8192
    assert description.num_vocabulary == 49_152
    assert "<|im_start|>" in description.chat_templates["default"]
    assert (description.bos_text, description.eos_text) == ("<|im_start|>", "<|im_end|>")
    assert 130_000_000 < description.num_parameters < 170_000_000
    assert description.size_bytes > 80_000_000
    assert description.created > 1_000_000_000


def test_variants_of_templates_and_sampling_defaults_are_read(other_family_path: Path) -> None:
    loaded = LlamaModel.load(other_family_path, EngineConfig(num_cells=1024))
    description = loaded.description("rich")
    loaded.close()
    assert description.chat_templates["tool_use"] == "{{ tools }}" * 500
    assert description.sampling_defaults == {"temperature": 0.6, "top_k": 20.0}
    assert description.max_request_tokens == 1024


def test_a_fingerprint_belongs_to_the_file(tiny_model: LlamaModel, tmp_path: Path) -> None:
    copy = tmp_path / "other name.gguf"
    shutil.copy(tiny_model.path, copy)
    assert model._fingerprint(copy) == tiny_model.fingerprint
    assert tiny_model.fingerprint.startswith("fp_")
    assert len(tiny_model.fingerprint) == 13
    with copy.open("r+b") as file:
        file.seek(copy.stat().st_size // 2)
        file.seek(-4096, os.SEEK_END)
        file.write(b"\x01" * 4096)
    assert model._fingerprint(copy) != tiny_model.fingerprint


def test_what_is_wrong_with_a_file_is_one_sentence(tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("not a model")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF\x03\x00\x00\x00")
    for path, words in [
        (tmp_path / "none.gguf", "no model file"),
        (tmp_path, "is a folder"),
        (text, "not a GGUF file"),
        (cut, "damaged or of an unknown kind"),
    ]:
        with pytest.raises(ModelLoadError, match=words) as caught:
            LlamaModel.load(path, EngineConfig())
        assert "\n" not in str(caught.value)


def test_cells_that_do_not_fit_are_refused_before_they_are_used(tiny_model_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"does not fit.*SKIPPY_CONTEXT"):
        LlamaModel.load(tiny_model_path, EngineConfig(num_cells=2_000_000_000))


def test_a_runner_frees_its_model_only_if_it_owns_it(tiny_model_path: Path) -> None:
    config = EngineConfig(num_lanes=1, num_cells=256)
    loaded = LlamaModel.load(tiny_model_path, config)
    LlamaRunner(loaded, config, owns_model=False).close()
    assert not loaded.is_closed
    LlamaRunner(loaded, config).close()
    assert loaded.is_closed
    loaded.close()
    with pytest.raises(ServiceUnavailable):
        loaded.tokenizer.tokenize("late", add_special=False, parse_special=False)
    assert loaded.description("still known").num_vocabulary == 49_152
