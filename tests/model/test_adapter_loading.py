"""A model that is loaded with adapters, as a service loads it: from its files to answers, or to a no."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inference.domain.adapters import AdapterSet, AppliedAdapter, adapter_namespace
from inference.domain.clock import SystemClock
from inference.domain.events import TokenBatch
from inference.domain.model_settings import ModelSettings
from inference.domain.requests import GenerationRequest, SamplingParams
from inference.engine.config import EngineConfig
from inference.engine.load_error import ModelLoadError
from inference.engine.load_order import LoadOrder, ModelFiles
from inference.engine.local import LocalEngine, LocalEngineLoader
from tests.model.tiny_adapter import write_adapter
from tests.unit.engine.scripted_engine_parts import FifoAdmission

CONFIG = EngineConfig(num_lanes=4, num_cells=1024, num_threads=1)


def order(model: Path, **adapters: Path) -> LoadOrder:
    settings = ModelSettings(row_id=1, revision=1, id="m", source=str(model))
    return LoadOrder(settings=settings, files=ModelFiles(model=model, adapters=adapters), config=CONFIG)


async def said(engine: LocalEngine, name: str, adapters: AdapterSet) -> list[int]:
    prompt = tuple(engine.tokenizer.tokenize("Once upon a time", add_special=True, parse_special=False))
    handle = engine.backend.submit(
        GenerationRequest(
            name,
            prompt,
            12,
            SamplingParams(temperature=0.0),
            ignore_eos=True,
            adapters=adapters,
            cache_namespace=adapter_namespace(adapters),
        )
    )
    return [one async for event in handle if isinstance(event, TokenBatch) for one in event.token_ids]


async def test_from_files_to_answers(tiny_model_path: Path, tmp_path: Path) -> None:
    file = write_adapter(tiny_model_path, tmp_path / "polite.gguf", seed=3)
    admission = FifoAdmission()
    engine = await LocalEngineLoader(clock=SystemClock()).load(
        order(tiny_model_path, polite=file), lambda num_cells: admission
    )
    assert isinstance(engine, LocalEngine)
    try:
        plain, polite, faint = await asyncio.gather(
            said(engine, "plain", ()),
            said(engine, "polite", (AppliedAdapter("polite", 1.0),)),
            said(engine, "faint", (AppliedAdapter("polite", 0.3),)),
        )
        assert len({tuple(plain), tuple(polite), tuple(faint)}) == 3
    finally:
        assert await engine.stop()


async def test_one_bad_adapter_keeps_the_model_from_being_loaded_and_is_named(
    tiny_model_path: Path, tmp_path: Path
) -> None:
    good = write_adapter(tiny_model_path, tmp_path / "good.gguf", seed=3)
    bad = write_adapter(tiny_model_path, tmp_path / "bad.gguf", seed=3, metadata={"adapter.lora.alpha": 16})

    def admit(num_cells: int) -> FifoAdmission:
        raise AssertionError("nothing was to be admitted")

    with pytest.raises(ModelLoadError, match="'rude'"):
        await LocalEngineLoader(clock=SystemClock()).load(
            order(tiny_model_path, polite=good, rude=bad), admit
        )
