"""`suffix`: what is missing between two texts."""

from __future__ import annotations

import json

from inference.domain.tokenizer import InfillTokens

COMPLETIONS = "/v1/completions"


def completion(**fields: object) -> bytes:
    return json.dumps({"model": "scripted", "prompt": "ab", "suffix": "c", **fields}).encode()


async def test_a_model_that_can_fill_in_is_asked_its_own_way(site):
    site.engine.tokenizer.infill = InfillTokens(256, 257, 258)
    site.engine.play = lambda handle: handle.start().say("x").finish()
    answer = await site.post(COMPLETIONS, completion(prompt=["ab", "d"]))
    assert [choice["text"] for choice in answer.json()["choices"]] == ["x", "x"]
    prompts = [handle.request.prompt_token_ids for handle in site.engine.handles]
    assert prompts == [(256, 97, 98, 257, 99, 258), (256, 100, 257, 99, 258)]


async def test_others_refuse_by_name_and_an_empty_suffix_asks_for_nothing(site):
    site.engine.play = lambda handle: handle.start().say("x").finish()
    refused = await site.post(COMPLETIONS, completion())
    assert (refused.status, refused.json()["error"]["param"]) == (400, "suffix")
    assert refused.json()["error"]["code"] == "unsupported_parameter"
    assert (await site.post(COMPLETIONS, completion(suffix=""))).status == 200
    assert (await site.post(COMPLETIONS, completion(suffix=None))).status == 200


async def test_an_echo_cannot_stand_in_between(site):
    refused = await site.post(COMPLETIONS, completion(echo=True))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "echo")
