"""Embeddings and rankings through the real doors."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest

from accounts.contracts import KeyLimits, KeyLookup, KeyState, Limits
from accounts.scopes import Scope
from inference.api.metrics import model_gauges
from inference.domain.errors import GenerationFailed, ServerOverloaded
from inference.domain.outcomes import Outcome
from inference.domain.time_limits import TimeLimits
from inference.openai.embeddings import MAX_INPUTS
from tests.scripted_embeddings import WIDTH, ScriptedEmbeddings, row_of
from tests.unit.api.conftest import KEY, PRINCIPAL, Site, started

Make = Callable[..., Awaitable[Site]]


def body(**fields: object) -> bytes:
    return json.dumps({"model": "scripted", **fields}).encode()


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes sites whose engine embeds, or ranks."""
    sites: list[Site] = []

    async def made(
        embeddings: ScriptedEmbeddings | None = None, *, can_generate: bool = True, **settings: object
    ) -> Site:
        site = Site(**settings)  # type: ignore[arg-type]
        embeddings = embeddings or ScriptedEmbeddings()
        site.engine.embeddings = embeddings
        site.engine.description = replace(
            site.engine.description, embedding=embeddings.description, can_generate=can_generate
        )
        await started(site)
        sites.append(site)
        return site

    yield made
    for site in sites:
        await site.runtime.stop()


def backend(site: Site) -> ScriptedEmbeddings:
    assert isinstance(site.engine.embeddings, ScriptedEmbeddings)
    return site.engine.embeddings


def unit(text: bytes) -> np.ndarray:
    row = np.array(row_of(tuple(text)))
    return row / np.linalg.norm(row)


# -- what comes back ------------------------------------------------------------------------------


async def test_a_text_and_several(make: Make) -> None:
    site = await make()
    one = await site.post("/v1/embeddings", body(input="hello"))
    assert one.status == 200
    found = one.json()
    assert (found["object"], found["model"]) == ("list", "scripted")
    assert found["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    assert [sorted(item) for item in found["data"]] == [["embedding", "index", "object"]]
    assert np.allclose(found["data"][0]["embedding"], unit(b"hello"), atol=1e-6)

    several = (await site.post("/v1/embeddings/", body(input=["a", "bc", "a"]))).json()
    assert [item["index"] for item in several["data"]] == [0, 1, 2]
    assert several["data"][0]["embedding"] == several["data"][2]["embedding"]
    assert np.allclose(several["data"][1]["embedding"], unit(b"bc"), atol=1e-6)
    assert several["usage"]["total_tokens"] == 4


async def test_what_was_computed_is_told_to_operators(make: Make) -> None:
    site = await make()
    await site.post("/v1/embeddings", body(input=["a", "bc", "a"]))
    told = site.runtime.statistics().models["scripted"].embeddings
    assert told.total_texts == 3
    (gauges,) = model_gauges(site.runtime)
    assert gauges.embeddings == told


async def test_token_ids_alone_and_in_lists(make: Make) -> None:
    site = await make()
    alone = (await site.post("/v1/embeddings", body(input=[104, 105]))).json()
    lists = (await site.post("/v1/embeddings", body(input=[[104, 105], [97]]))).json()
    text = (await site.post("/v1/embeddings", body(input="hi"))).json()
    assert alone["data"] == text["data"] == lists["data"][:1]
    assert lists["usage"]["prompt_tokens"] == 3
    control = await site.post("/v1/embeddings", body(input="<|im_end|>"))
    assert control.status == 200
    assert backend(site).requests[-1].token_ids == (tuple(b"<|im_end|>"),), "text is no control token"


async def test_base64_is_little_endian_floats(make: Make) -> None:
    site = await make()
    floats = (await site.post("/v1/embeddings", body(input=["hello", "x"]))).json()
    coded = (await site.post("/v1/embeddings", body(input=["hello", "x"], encoding_format="base64"))).json()
    for plain, packed in zip(floats["data"], coded["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(packed["embedding"]), dtype="<f4")
        assert decoded.tolist() == np.array(plain["embedding"], dtype=np.float32).tolist()


async def test_fewer_dimensions_are_cut_and_of_length_one_again(make: Make) -> None:
    site = await make()
    short = (await site.post("/v1/embeddings", body(input="hello", dimensions=2))).json()
    row = unit(b"hello")[:2]
    assert np.allclose(short["data"][0]["embedding"], row / np.linalg.norm(row), atol=1e-6)
    whole = await site.post("/v1/embeddings", body(input="hello", dimensions=WIDTH))
    assert len(whole.json()["data"][0]["embedding"]) == WIDTH
    for wrong in (0, -1, WIDTH + 1, 2**31, 1.0, "2", True):
        refused = await site.post("/v1/embeddings", body(input="hello", dimensions=wrong))
        assert (refused.status, refused.json()["error"]["param"]) == (400, "dimensions"), wrong


async def test_the_largest_request_is_answered(make: Make) -> None:
    site = await make()
    texts = [f"text {index}" for index in range(MAX_INPUTS)]
    found = (await site.post("/v1/embeddings", body(input=texts))).json()
    assert len(found["data"]) == MAX_INPUTS
    assert np.allclose(found["data"][-1]["embedding"], unit(texts[-1].encode()), atol=1e-6)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (None, "input"),
        ("", "input"),
        ([], "input"),
        ({}, "input"),
        (5, "input"),
        (["a", ""], "input[1]"),
        ([[1], []], "input[1]"),
        (["a", 1], "input"),
        (["a", [1]], "input"),
        ([[1], "a"], "input"),
        ([[[1]]], "input[0]"),
        ([[1, "a"]], "input[0]"),
        ([True, 1], "input"),
        ([[True]], "input[0]"),
        ([1.5], "input"),
        ([{"text": "a"}], "input"),
        ([None], "input"),
        ([-1], "input"),
        ([[5], [-1]], "input[1]"),
        ([259], "input"),
        ([[5], [2**70]], "input[1]"),
        (["a"] * 10_000, "input"),
        ("a" * 101, "input"),
        (["a", "b" * 101], "input[1]"),
        ([[1], [1] * 101], "input[1]"),
        ("a" * 500_000, "input"),
    ],
)
async def test_inputs_that_cannot_be(make: Make, value: object, param: str) -> None:
    site = await make()
    refused = await site.post("/v1/embeddings", body(input=value))
    assert (refused.status, refused.json()["error"]["param"]) == (400, param)
    assert not backend(site).requests
    assert [record.outcome for record in site.records] == [Outcome.REJECTED]


async def test_a_text_that_is_too_long_is_named_with_its_length(make: Make) -> None:
    site = await make()
    error = (await site.post("/v1/embeddings", body(input=["a", "b" * 120]))).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "input[1]" in error["message"] and "120" in error["message"] and "100" in error["message"]


async def test_more_tokens_than_a_request_may_have(make: Make) -> None:
    site = await make(ScriptedEmbeddings(max_tokens=10_000), max_body_bytes=10_000_000)
    refused = await site.post("/v1/embeddings", body(input=["a" * 9_000] * 40))
    assert refused.json()["error"]["code"] == "max_tokens_per_request"
    assert refused.status == 400 and not backend(site).requests


async def test_bodies_that_are_none(make: Make) -> None:
    site = await make()
    for junk in (b"", b"{", b"[]", b'{"model": "scripted", "input": "\\ud800"}', b"[" * 10_000):
        for path in ("/v1/embeddings", "/v1/rerank"):
            assert (await site.post(path, junk)).status == 400
    assert (await site.get("/v1/embeddings")).status == 405
    assert (await site.post("/v1/embeddings", b'{"input": "a"}')).json()["error"]["param"] == "model"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"encoding_format": 1}, "encoding_format"),
        ({"user": 5}, "user"),
        ({"truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
        ({"embd_normalize": 0}, "embd_normalize"),
        ({"input_type": "query"}, "input_type"),
        ({"stream": True}, "stream"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
async def test_fields_that_cannot_be_served(make: Make, fields: dict[str, object], param: str) -> None:
    site = await make()
    refused = await site.post("/v1/embeddings", body(input="a", **fields))
    assert (refused.status, refused.json()["error"]["param"]) == (400, param)


async def test_fields_that_change_nothing(make: Make) -> None:
    site = await make()
    neutral = {"embd_normalize": 2, "user": "me", "stream": False, "late_chunking": False, "dimensions": None}
    assert (await site.post("/v1/embeddings", body(input="a", **neutral))).status == 200
    odd = await site.post("/v1/embeddings", body(input="a", frobnicate=1))
    assert odd.status == 200 and odd.headers["x-ignored-parameters"] == "frobnicate"
    strict = await make(strict_fields=True)
    assert (await strict.post("/v1/embeddings", body(input="a", frobnicate=1))).status == 400


async def test_who_may_not(make: Make) -> None:
    site = await make()
    assert (await site.post("/v1/embeddings", body(input="a"), authorization="Bearer x")).status == 401
    unknown = await site.post("/v1/embeddings", json.dumps({"model": "nope", "input": "a"}).encode())
    assert (unknown.status, unknown.json()["error"]["code"]) == (404, "model_not_found")
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, scopes=frozenset({Scope.USAGE})))
    assert (await site.post("/v1/embeddings", body(input="a"))).status == 403


# -- which models ---------------------------------------------------------------------------------


async def test_a_model_without_embeddings_says_so(site: Site) -> None:
    for path, fields in (("embeddings", {"input": "a"}), ("rerank", {"query": "q", "documents": ["d"]})):
        refused = await site.post(f"/v1/{path}", body(**fields))
        assert (refused.status, refused.json()["error"]["param"]) == (400, "model")
    assert (await site.get("/v1/models/scripted")).json()["capabilities"] == ["completion"]


async def test_a_model_that_only_embeds_generates_nothing(make: Make) -> None:
    site = await make(can_generate=False)
    messages = [{"role": "user", "content": "hi"}]
    for path, fields in (
        ("chat/completions", {"messages": messages}),
        ("chat/completions", {"messages": messages, "stream": True}),
        ("completions", {"prompt": "hi"}),
        ("responses", {"input": "hi"}),
        ("messages", {"messages": messages, "max_tokens": 5}),
    ):
        refused = await site.post(f"/v1/{path}", body(**fields))
        assert refused.status == 400 and "no text" in refused.body.decode(), path
    assert not site.engine.handles
    model = (await site.get("/v1/models/scripted")).json()
    assert (model["capabilities"], model["embedding_length"]) == (["embedding"], WIDTH)
    assert (await site.post("/v1/embeddings", body(input="a"))).status == 200


async def test_a_ranking_model_ranks_and_embeds_nothing(make: Make) -> None:
    site = await make(ScriptedEmbeddings(can_rank=True), can_generate=False)
    documents = ["aa", {"text": "aaaa", "title": "t"}, "a", "aa"]
    found = (await site.post("/v1/rerank", body(query="q", documents=documents))).json()
    assert [result["index"] for result in found["results"]] == [1, 0, 3, 2]
    assert [result["relevance_score"] for result in found["results"]] == [5, 3, 3, 2]
    assert found["usage"] == {"prompt_tokens": 13, "total_tokens": 13}
    assert (found["model"], found["object"]) == ("scripted", "list")

    best = await site.post("/v1/rerank", body(query="q", documents=documents, top_n=1, return_documents=True))
    assert best.json()["results"] == [{"index": 1, "relevance_score": 5, "document": {"text": "aaaa"}}]
    more = await site.post("/v1/rerank", body(query="q", documents=documents, top_n=100))
    assert len(more.json()["results"]) == 4
    refused = await site.post("/v1/embeddings", body(input="a"))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "model")
    model = (await site.get("/v1/models/scripted")).json()
    assert (model["capabilities"], model["embedding_length"]) == (["rerank"], None)


async def test_a_model_that_embeds_does_not_rank(make: Make) -> None:
    site = await make()
    refused = await site.post("/v1/rerank", body(query="q", documents=["d"]))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "model")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"documents": ["a"]}, "query"),
        ({"query": "", "documents": ["a"]}, "query"),
        ({"query": ["q"], "documents": ["a"]}, "query"),
        ({"query": "q"}, "documents"),
        ({"query": "q", "documents": []}, "documents"),
        ({"query": "q", "documents": "a"}, "documents"),
        ({"query": "q", "documents": ["a", 5]}, "documents[1]"),
        ({"query": "q", "documents": [{"txt": "a"}]}, "documents[0]"),
        ({"query": "q", "documents": ["a"] * 3000}, "documents"),
        ({"query": "q", "documents": ["a", "b" * 200]}, "documents[1]"),
        ({"query": "q" * 200, "documents": ["a"]}, "query"),
        ({"query": "q", "documents": ["a"], "top_n": 0}, "top_n"),
        ({"query": "q", "documents": ["a"], "rank_fields": ["x"]}, "rank_fields"),
        ({"query": "q", "texts": ["a"]}, "documents"),
    ],
)
async def test_rankings_that_cannot_be(make: Make, fields: dict[str, object], param: str) -> None:
    site = await make(ScriptedEmbeddings(can_rank=True), can_generate=False)
    refused = await site.post("/v1/rerank", body(**fields))
    assert (refused.status, refused.json()["error"]["param"]) == (400, param)


async def test_an_empty_document_is_one(make: Make) -> None:
    site = await make(ScriptedEmbeddings(can_rank=True), can_generate=False)
    assert (await site.post("/v1/rerank", body(query="q", documents=[""]))).status == 200


# -- records and limits ---------------------------------------------------------------------------


async def test_one_record_with_its_tokens(make: Make) -> None:
    site = await make()
    await site.post("/v1/embeddings", body(input=["abc", "de"], user="reader"))
    (record,) = site.records
    assert (record.endpoint, record.model, record.outcome) == ("embeddings", "scripted", Outcome.COMPLETED)
    assert record.usage is not None and record.finish_reason is None and not record.is_stream
    assert (record.usage.prompt_tokens, record.usage.completion_tokens, record.end_user) == (5, 0, "reader")
    assert record.queue_s is not None


async def test_failures_are_recorded_as_what_they_are(make: Make) -> None:
    site = await make()
    backend(site).failure = ServerOverloaded("The queue is full.", retry_after_s=9)
    full = await site.post("/v1/embeddings", body(input="abc"))
    assert (full.status, full.headers["retry-after"]) == (429, "9")
    backend(site).failure = GenerationFailed("no")
    assert (await site.post("/v1/embeddings", body(input="abc"))).status == 502
    assert [record.outcome for record in site.records] == [Outcome.REJECTED, Outcome.BACKEND_ERROR]
    assert all(record.usage is None for record in site.records)


async def test_who_leaves_pays_for_what_was_computed(make: Make) -> None:
    site = await make()
    backend(site).gate.clear()
    backend(site).num_computed = 3
    request = site.open("/v1/embeddings", body(input=["abc", "defg"]))
    await _until(lambda: bool(backend(site).requests))
    request.disconnect()
    await request.task
    (record,) = site.records
    assert record.outcome is Outcome.CLIENT_DISCONNECT
    assert record.usage is not None and record.usage.prompt_tokens == 3


async def test_the_time_limit_of_a_request_holds(make: Make) -> None:
    site = await make(time_limits=TimeLimits(request_s=600))
    backend(site).gate.clear()
    late = await site.post("/v1/embeddings", body(input="abc", timeout_s=0.05))
    assert late.status == 504
    assert [record.outcome for record in site.records] == [Outcome.TIMED_OUT]


async def test_limits_are_reserved_and_settled_by_prompt_tokens(make: Make) -> None:
    site = await make()
    limits = KeyLimits(Limits(max_tokens_per_minute=100))
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, limits=limits))
    first = await site.post("/v1/embeddings", body(input="a" * 60))
    assert first.status == 200
    assert first.headers["x-ratelimit-remaining-tokens"] == "40"
    second = await site.post("/v1/embeddings", body(input="a" * 60))
    assert (second.status, second.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert len(backend(site).requests) == 1
    assert (await site.post("/v1/embeddings", body(input="a" * 40))).status == 200
    assert site.limit_desk.statistics().num_open == 0


async def test_a_name_runs_once(make: Make) -> None:
    site = await make()
    names = {"idempotency-key": "once"}
    assert (await site.post("/v1/embeddings", body(input="a"), **names)).status == 200
    again = await site.post("/v1/embeddings", body(input="a"), **names)
    assert again.status == 409, "vectors are not kept, so they cannot be sent again"
    assert (await site.post("/v1/embeddings", body(input="b"), **names)).status == 400
    assert len(backend(site).requests) == 1


async def test_nothing_of_the_texts_is_kept(make: Make) -> None:
    site = await make()
    site.keys[KEY] = KeyLookup(KeyState.VALID, replace(PRINCIPAL, keeps_text=True))
    assert (await site.post("/v1/embeddings", body(input="a secret"))).status == 200
    assert not site.kept.texts


async def test_users_and_classes_reach_the_queue(make: Make) -> None:
    site = await make()
    await site.post("/v1/embeddings", body(input="a"))
    request = backend(site).requests[-1]
    assert (request.user_id, request.priority.value) == (PRINCIPAL.user_id, PRINCIPAL.priority.value)


async def _until(condition: Callable[[], bool]) -> None:
    import asyncio

    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)
