"""LoRA adapters at the doors: which ones a request gets, by which names, and who may."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from inference.domain.adapters import AdapterSettings, AppliedAdapter
from tests.scripted_engine import ScriptedHandle
from tests.unit.api.conftest import KEY, PRINCIPAL, SCRIPTED, Site, started

POLITE = AdapterSettings(name="polite", source="polite.gguf", scale=0.5)
TERSE = AdapterSettings(name="terse", source="terse.gguf", is_default=True)
MODEL = replace(SCRIPTED, aliases=("default",), adapters=(POLITE, TERSE))
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
}
CHAT = "/v1/chat/completions"


@pytest.fixture
async def adapted() -> AsyncIterator[Site]:
    site = Site(models=(MODEL,))
    await started(site)
    site.engine.play = lambda handle: handle.start().say("x").finish()
    yield site
    await site.runtime.stop()


async def ask(site: Site, path: str = CHAT, **fields: Any) -> Any:
    return await site.post(path, json.dumps({"model": "scripted", **BODIES[path], **fields}).encode())


def applied(handle: ScriptedHandle) -> dict[str, float]:
    return {one.name: one.scale for one in handle.request.adapters}


def allow(site: Site, *models: str) -> None:
    limits = KeyLimits(Limits(allowed_models=models))
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=limits))


async def test_models_are_listed_with_their_adapters(adapted: Site) -> None:
    listed = (await adapted.get("/v1/models")).json()["data"]
    assert [(one["id"], one.get("parent")) for one in listed] == [
        ("scripted", None),
        ("scripted:polite", "scripted"),
        ("scripted:terse", "scripted"),
    ]
    for name in ("scripted:polite", "default:polite", "default@main:polite"):
        assert (await adapted.get(f"/v1/models/{name}")).json() == listed[1]
    for name in ("scripted:", "scripted:rude", "other:polite", ":polite", "scripted:polite:terse"):
        assert (await adapted.get(f"/v1/models/{name}")).status == 404


@pytest.mark.parametrize("path", list(BODIES))
async def test_what_is_said_on_each_wire_reaches_the_engine(adapted: Site, path: str) -> None:
    asked = [
        ({}, {"terse": 1.0}, "scripted"),
        ({"model": "scripted:polite"}, {"polite": 0.5}, "scripted:polite"),
        ({"model": "default@main:polite"}, {"polite": 0.5}, "scripted:polite"),
        ({"lora": []}, {}, "scripted"),
        ({"lora": [{"name": "polite"}, {"id": 1, "scale": 2}]}, {"polite": 0.5, "terse": 2.0}, "scripted"),
        ({"model": "scripted:polite", "lora": [{"id": 1}]}, {"polite": 0.5, "terse": 1.0}, "scripted:polite"),
        ({"lora": [{"name": "terse", "scale": 0}]}, {}, "scripted"),
    ]
    for fields, expected, model in asked:
        answer = await ask(adapted, path, **fields)
        assert answer.status == 200, answer.body
        assert answer.json()["model"] == model
        assert adapted.records[-1].model == model
        assert applied(adapted.engine.handles[-1]) == expected
    assert len({handle.request.cache_namespace for handle in adapted.engine.handles}) == 5


@pytest.mark.parametrize("path", list(BODIES))
async def test_what_is_not_there_is_a_400_that_names_it(adapted: Site, path: str) -> None:
    for lora, shown in (
        ([{"name": "rude"}], "rude"),
        ([{"id": 2}], "2"),
        ([{"id": 0}, {"name": "polite"}], "twice"),
    ):
        answer = await ask(adapted, path, lora=lora)
        assert answer.status == 400
        assert "lora[" in answer.json()["error"]["message"]
        assert shown in answer.json()["error"]["message"]
    assert not adapted.engine.handles


async def test_a_models_name_covers_its_adapters_and_an_adapters_name_itself_alone(adapted: Site) -> None:
    allow(adapted, "scripted")
    assert (await ask(adapted, model="scripted:polite")).status == 200
    assert len((await adapted.get("/v1/models")).json()["data"]) == 3

    allow(adapted, "scripted:polite")
    assert (await ask(adapted, model="scripted:polite")).status == 200
    assert applied(adapted.engine.handles[-1]) == {"polite": 0.5}
    assert [one["id"] for one in (await adapted.get("/v1/models")).json()["data"]] == ["scripted:polite"]
    num_before = len(adapted.engine.handles)
    for fields, status in (
        ({"model": "scripted"}, 404),
        ({"model": "scripted:terse"}, 404),
        ({"model": "scripted:polite", "lora": []}, 403),
        ({"model": "scripted:polite", "lora": [{"name": "polite", "scale": 0}]}, 403),
        ({"model": "scripted:polite", "lora": [{"name": "terse"}]}, 403),
    ):
        assert (await ask(adapted, **fields)).status == status
    assert len(adapted.engine.handles) == num_before


async def test_a_key_and_its_team_may_name_a_model_differently(adapted: Site) -> None:
    limits = KeyLimits(
        Limits(allowed_models=("default:polite",)), of_team=Limits(allowed_models=("scripted",))
    )
    adapted.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=limits))
    assert (await ask(adapted, model="scripted:polite")).status == 200
    assert (await ask(adapted)).status == 404


async def test_a_model_that_is_called_like_an_adapter_goes_before_it() -> None:
    other = replace(SCRIPTED, row_id=2, id="scripted:polite", source="other.gguf")
    site = Site(models=(MODEL, other))
    await started(site)
    try:
        site.engine.play = lambda handle: handle.start().say("x").finish()
        listed = (await site.get("/v1/models")).json()["data"]
        assert [one["id"] for one in listed] == ["scripted", "scripted:terse", "scripted:polite"]
        await ask(site, model="scripted:polite")
        assert applied(site.engine.handles[-1]) == {}
    finally:
        await site.runtime.stop()


async def test_many_answers_have_the_adapters_of_their_request(adapted: Site) -> None:
    answer = await ask(adapted, model="scripted:polite", n=3)
    assert answer.status == 200
    assert [handle.request.adapters for handle in adapted.engine.handles] == [
        (AppliedAdapter("polite", 0.5),)
    ] * 3


async def test_a_model_without_adapters_has_none(site: Site) -> None:
    site.engine.play = lambda handle: handle.start().say("x").finish()
    assert (await ask(site, lora=[])).status == 200
    assert (await ask(site, lora=[{"id": 0}])).status == 400
    assert (await ask(site, model="scripted:polite")).status == 404
