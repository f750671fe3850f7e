"""Tokens of a text and the text of tokens, through the real doors."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from accounts.scopes import Scope
from inference.services.tokenization import MIN_TEXT_BYTES
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started


def body(**fields: object) -> bytes:
    return json.dumps(fields).encode()


async def test_a_prompt_there_and_back(site: Site) -> None:
    text = "hé <|im_end|>"
    answer = await site.post("/v1/tokenize", body(model="scripted", prompt=text, return_token_strs=True))

    assert answer.status == 200
    found = answer.json()
    assert found["tokens"] == list(text.encode()), "control tokens are never read from text"
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert found["max_model_len"] == 4096
    back = await site.post("/v1/detokenize", body(tokens=found["tokens"]))
    assert back.json() == {"prompt": text}
    assert site.records == []


async def test_messages_are_the_prompt_of_a_chat(site: Site) -> None:
    answer = await site.post("/v1/tokenize", body(messages=[{"role": "user", "content": "hi"}]))

    found = answer.json()
    assert found["token_strs"] is None
    back = await site.post("/v1/detokenize/", body(tokens=found["tokens"]))
    assert back.json()["prompt"] == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    bare = await site.post(
        "/v1/tokenize",
        body(messages=[{"role": "user", "content": "hi"}], add_generation_prompt=False),
    )
    assert bare.json()["count"] == found["count"] - len("\0assistant\n")
    long = await site.post("/v1/tokenize", body(messages=[{"role": "user", "content": "hi" * 4096}]))
    assert long.json()["count"] > long.json()["max_model_len"], "to see that is what it is for"


async def test_odd_texts_and_tokens(site: Site) -> None:
    empty = await site.post("/v1/tokenize", body(prompt=""))
    assert (empty.json()["count"], empty.json()["tokens"]) == (0, [])
    assert (await site.post("/v1/detokenize", body(tokens=[0xC3]))).json() == {"prompt": "\ufffd"}
    assert (await site.post("/v1/detokenize", body(tokens=[]))).json() == {"prompt": ""}
    outside = await site.post("/v1/detokenize", body(tokens=[259]))
    assert (outside.status, outside.json()["error"]["param"]) == (400, "tokens")


@pytest.mark.parametrize("path", ["/v1/tokenize", "/v1/detokenize"])
async def test_refusals_look_like_all_others(site: Site, path: str) -> None:
    good = {"prompt": "a"} if path == "/v1/tokenize" else {"tokens": [1]}
    assert (await site.post(path, b"{")).status == 400
    assert (await site.get(path)).status == 405
    unknown = await site.post(path, body(model="nope", **good))
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, "model_not_found")
    ignored = await site.post(path, body(frobnicate=1, **good))
    assert ignored.headers["x-ignored-parameters"] == "frobnicate"
    assert (await site.post(path, body(**good), authorization="Bearer x")).status == 401

    elsewhere = KeyLimits(Limits(allowed_models=("another",)))
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=elsewhere))
    assert (await site.post(path, body(**good))).status == 404
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, scopes=frozenset({Scope.USAGE})))
    assert (await site.post(path, body(**good))).status == 403


async def test_a_model_that_is_still_loading_is_503() -> None:
    site = Site()
    answer = await site.post("/v1/tokenize", body(prompt="a"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "5")


async def test_texts_are_bounded() -> None:
    site = Site(max_body_bytes=10_000_000)
    await started(site)
    most = MIN_TEXT_BYTES
    for path, fields, param in (
        ("/v1/tokenize", {"prompt": "é" * (most // 2 + 1)}, "prompt"),
        ("/v1/tokenize", {"messages": [{"role": "user", "content": "a" * most}]}, "messages"),
        ("/v1/responses/input_tokens", {"model": "scripted", "input": "a" * most}, "input"),
    ):
        answer = await site.post(path, body(**fields))
        assert (answer.status, answer.json()["error"]["param"]) == (400, param)
    await site.runtime.stop()
