"""A live service whose model has LoRA adapters: each is a model of its own, and changes what is said."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.api.conftest import LiveService, start_service, stop_service
from tests.model.tiny_adapter import write_adapter
from tests.model_files import default_model_path


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    folder = tmp_path_factory.mktemp("adapted")
    files = [
        write_adapter(default_model_path(), Path(folder / f"{name}.gguf"), seed=seed, strength=0.15)
        for seed, name in enumerate(("one", "two"))
    ]
    service = start_service(folder, "daphne", SKIPPY_LORA=f"one={files[0]},two={files[1]}:0.5")
    yield service
    stop_service(service)


def said(service: LiveService, model: str, **fields: object) -> str:
    answer = service.post(
        "/completions",
        {"model": model, "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, **fields},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == model
    text: str = answer.json()["choices"][0]["text"]
    return text


def test_adapters_are_models_and_their_answers_differ_also_side_by_side(adapted: LiveService) -> None:
    base = adapted.model
    client = adapted.client()
    listed = {model.id: model for model in client.models.list()}
    assert list(listed) == [base, f"{base}:one", f"{base}:two"]
    alone = {model: said(adapted, model) for model in listed}
    assert len(set(alone.values())) == 3
    assert said(adapted, base, lora=[{"name": "one", "scale": 0}]) == alone[base]
    assert said(adapted, base, lora=[{"id": 1}]) == alone[f"{base}:two"]
    with ThreadPoolExecutor(12) as clients:
        wanted = [model for model in listed for _ in range(4)]
        together = list(clients.map(lambda model: (model, said(adapted, model)), wanted))
    # Computed beside others the last bits may differ, but nobody gets another set's answer.
    for model, text in together:
        others = {other for name, other in alone.items() if name != model}
        assert text not in others
    records = adapted.manage("request_list")
    assert "0 requests" in records
    adapted.alive()


def test_what_there_is_not_is_told(adapted: LiveService) -> None:
    refused = adapted.chat(lora=[{"name": "three"}])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "lora[0]")
    missing = adapted.chat(model=f"{adapted.model}:three")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
