"""What the doors and the service hand to the prefix cache, and what they tell of it."""

import json

import pytest

from inference.domain.events import FinishReason, Started
from tests.unit.api.conftest import Site, started

PATHS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
}


def play(handle, *, num_cached_tokens=0):
    handle._events.put_nowait(Started(at_ts=1001.0, num_cached_tokens=num_cached_tokens))
    handle.say("a").finish(FinishReason.STOP)


async def ask(site, path, **fields):
    answer = await site.post(path, json.dumps({"model": "scripted", **PATHS[path], **fields}).encode())
    assert answer.status == 200
    return answer.json()


@pytest.mark.parametrize("path", PATHS)
async def test_requests_are_kept_apart_by_user_and_key(site, path):
    site.engine.play = play
    for fields in ({}, {"prompt_cache_key": " k "}, {"prompt_cache_key": " "}):
        await ask(site, path, **fields)

    namespaces = [handle.request.cache_namespace for handle in site.engine.handles]
    assert namespaces == ["user 1", "user 1, key 1 k", "user 1"]


async def test_an_administrator_may_let_users_share():
    site = Site(has_shared_prefixes=True)
    await started(site)
    site.engine.play = play
    await ask(site, "/v1/completions")
    await ask(site, "/v1/completions", prompt_cache_key="k")
    await site.runtime.stop()

    namespaces = [handle.request.cache_namespace for handle in site.engine.handles]
    assert namespaces == ["all", "all, key 1 k"]


@pytest.mark.parametrize("path", PATHS)
async def test_cached_tokens_are_told_as_the_engine_found_them(site, path):
    site.engine.play = lambda handle: play(handle, num_cached_tokens=1)

    value = await ask(site, path)

    assert value["usage"]["prompt_tokens_details"]["cached_tokens"] == 1
    assert value["timings"]["suffix_prefill_n"] == value["usage"]["prompt_tokens"] - 1
    assert site.records[0].usage.cached_tokens == 1
