"""What a caller with limits is told: six headers, the codes, and nothing of what it may not use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network

import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from accounts.limits.contracts import LimitScope
from accounts.limits.counter import Owner
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.outcomes import Outcome
from inference.domain.rejection_reason import RejectionReason
from tests.asgi import exchange
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

HEADERS = [
    f"x-ratelimit-{what}-{name}"
    for name in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
]
OWNER = Owner(LimitScope.KEY, PRINCIPAL.key_id)


def chat(**fields) -> bytes:
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps({"model": "scripted", "messages": messages, "max_tokens": 4, **fields}).encode()


def limit(site: Site, **limits) -> None:
    principal = replace(PRINCIPAL, limits=KeyLimits(Limits(**limits)))
    site.keys[KEY] = KeyLookup(KeyState.VALID, principal)


@pytest.fixture
async def live() -> AsyncIterator[Site]:
    site = Site()
    site.engine.play = lambda handle: handle.start().say("Hi").finish()
    await started(site)
    yield site
    await site.runtime.stop()
    assert site.limit_desk.statistics().num_open == 0


async def open_count(site: Site) -> int:
    """What is taken, once all that has ended was said."""
    await site.get("/v1/models")
    site.limit_clock.advance(2)
    await site.get("/v1/models")
    return site.limit_store.shared.counters[OWNER].num_open


class TestHeaders:
    @pytest.mark.parametrize("is_stream", [False, True])
    async def test_all_six_are_on_an_answer_and_show_what_is_left(self, live, is_stream) -> None:
        limit(live, max_requests_per_minute=10, max_tokens_per_minute=1000)
        answer = await live.post("/v1/chat/completions", chat(stream=is_stream))
        assert answer.status == 200
        shown = {name: answer.headers[name] for name in HEADERS}
        assert shown["x-ratelimit-limit-requests"] == "10"
        assert shown["x-ratelimit-remaining-requests"] == "9"
        assert shown["x-ratelimit-limit-tokens"] == "1000"
        assert 900 < int(shown["x-ratelimit-remaining-tokens"]) < 1000
        assert shown["x-ratelimit-reset-requests"] in ("1m0s", "1m1s")

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("/v1/chat/completions", b"{", 400),
            ("/v1/chat/completions", chat(model="none"), 404),
            ("/v1/completions", chat(max_tokens=-1), 400),
        ],
    )
    async def test_errors_have_them_too(self, live, path, body, status) -> None:
        answer = await live.post(path, body)
        assert answer.status == status
        assert [answer.headers.get(name) is not None for name in HEADERS] == [True] * 6

    async def test_a_key_without_limits_shows_the_ceiling(self, live) -> None:
        for path in ("/v1/models", "/v1/models/scripted"):
            answer = await live.get(path)
            assert answer.headers["x-ratelimit-limit-requests"] == "1000000"
            assert answer.headers["x-ratelimit-reset-tokens"] == "0s"
        assert not live.limit_store.batches

    async def test_whoever_has_no_key_is_shown_nothing(self, live) -> None:
        answer = await exchange(live.app, "GET", "/v1/models", headers={"authorization": "Bearer nonsense"})
        assert answer.status == 401
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


class TestRefusals:
    async def test_one_request_too_many_may_come_again(self, live) -> None:
        limit(live, max_requests_per_minute=1)
        assert (await live.post("/v1/chat/completions", chat())).status == 200
        answer = await live.post("/v1/chat/completions", chat())
        assert (answer.status, answer.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(answer.headers["retry-after"]) <= 61
        assert "x-should-retry" not in answer.headers
        assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        record = live.records[-1]
        assert (record.outcome, record.rejection_reason) == (
            Outcome.REJECTED,
            RejectionReason.REQUESTS_PER_MINUTE,
        )
        live.limit_clock.advance(int(answer.headers["retry-after"]))
        assert (await live.post("/v1/chat/completions", chat())).status == 200

    async def test_a_spent_budget_is_not_helped_by_asking_again(self, live) -> None:
        limit(live, max_tokens_per_day=0)
        answer = await live.post("/v1/chat/completions", chat(stream=True))
        assert (answer.status, answer.json()["error"]["code"]) == (429, "insufficient_quota")
        assert answer.headers["x-should-retry"] == "false"
        assert int(answer.headers["retry-after"]) >= 1

    async def test_who_is_at_its_limit_is_refused_before_the_prompt_costs_anything(self, live) -> None:
        limit(live, max_tokens_per_day=0)
        num_calls = live.engine.tokenizer.num_calls
        assert (await live.post("/v1/chat/completions", chat())).status == 429
        assert live.engine.tokenizer.num_calls == num_calls
        assert not live.engine.handles

    async def test_a_request_that_is_wrong_is_told_so_whatever_is_left(self, live) -> None:
        limit(live, max_requests_per_minute=0)
        assert (await live.post("/v1/chat/completions", chat(temperature=9))).status == 400

    async def test_a_store_that_is_away_is_a_503_for_those_who_have_limits(self, live) -> None:
        live.limit_store.is_away = True
        assert (await live.post("/v1/chat/completions", chat())).status == 200
        limit(live, max_parallel_requests=5)
        answer = await live.post("/v1/chat/completions", chat())
        assert (answer.status, answer.json()["error"]["code"]) == (503, "service_unavailable")
        assert "retry-after" in answer.headers
        assert live.records[-1].status == 503

    async def test_a_network_that_is_none_of_the_key_s_is_refused_and_recorded(self, live) -> None:
        limit(live, allowed_networks=(ip_network("198.51.100.0/24"),))
        answer = await live.post("/v1/chat/completions", chat())
        assert (answer.status, answer.json()["error"]["code"]) == (403, "permission_denied")
        assert live.records[-1].rejection_reason is RejectionReason.NETWORK
        assert (await live.get("/v1/models")).status == 403
        limit(live, allowed_networks=(ip_network("192.0.2.0/24"),))
        assert (await live.post("/v1/chat/completions", chat())).status == 200


class TestModels:
    async def test_a_model_that_the_key_may_not_use_does_not_exist_for_it(self, live) -> None:
        missing = await live.post("/v1/chat/completions", chat(model="none"))
        limit(live, allowed_models=("another",))
        answer = await live.post("/v1/chat/completions", chat())
        assert answer.status == 404
        assert answer.body == missing.body.replace(b"none", b"scripted")
        assert (await live.get("/v1/models")).json()["data"] == []
        assert (await live.get("/v1/models/scripted")).status == 404
        limit(live, allowed_models=("another", "scripted"))
        assert len((await live.get("/v1/models")).json()["data"]) == 1
        assert (await live.post("/v1/chat/completions", chat())).status == 200


class TestGivingBack:
    async def test_what_was_used_counts_and_the_rest_of_the_estimate_does_not(self, live) -> None:
        limit(live, max_tokens_per_minute=1000, max_parallel_requests=3)
        answer = await live.post("/v1/chat/completions", chat(max_tokens=400))
        used = answer.json()["usage"]["total_tokens"]
        assert await open_count(live) == 0
        assert live.limit_store.shared.counters[OWNER].window.num_tokens == used

    async def test_who_leaves_gives_back_its_place_and_pays_for_what_was_computed(self, live) -> None:
        limit(live, max_parallel_requests=1, max_tokens_per_minute=1000)
        live.engine.play = lambda handle: handle.start().say("abc")
        opened = live.open("/v1/chat/completions", chat(stream=True, max_tokens=100))
        await opened.until(lambda: b"abc" in opened.body)
        assert (await live.post("/v1/chat/completions", chat())).status == 429
        opened.disconnect()
        await opened.task
        assert await open_count(live) == 0
        num_prompt_tokens = len(live.engine.handles[0].request.prompt_token_ids)
        assert live.limit_store.shared.counters[OWNER].window.num_tokens == num_prompt_tokens + 3

    async def test_what_never_had_a_lane_costs_nothing(self, live) -> None:
        limit(live, max_requests_per_minute=5, max_tokens_per_minute=1000)
        live.engine.refusal = ServerOverloaded("full")
        for _ in range(10):
            answer = await live.post("/v1/chat/completions", chat())
            assert (answer.status, answer.json()["error"]["code"]) == (429, "server_overloaded")
        live.engine.refusal = None
        live.engine.play = lambda handle: handle.fail(ServerOverloaded("no lane in time"))
        assert (await live.post("/v1/chat/completions", chat())).status == 429
        assert await open_count(live) == 0
        window = live.limit_store.shared.counters[OWNER].window
        assert (window.num_requests, window.num_tokens) == (0, 0)

    async def test_a_failure_of_the_engine_pays_for_what_it_computed(self, live) -> None:
        limit(live, max_tokens_per_minute=1000)
        live.engine.play = lambda handle: handle.start().say("ab").fail(GenerationFailed("a fault"))
        assert (await live.post("/v1/chat/completions", chat())).status == 502
        assert await open_count(live) == 0
        num_prompt_tokens = len(live.engine.handles[0].request.prompt_token_ids)
        assert live.limit_store.shared.counters[OWNER].window.num_tokens == num_prompt_tokens + 2
