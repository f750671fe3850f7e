"""Embeddings and rankings for the official client, and for those that send anything but a good request."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import openai
import pytest
from gguf import PoolingType

from tests.contract.api.conftest import LiveService, start_service, stop_service
from tests.contract.api.test_schemas import validate
from tests.model.tiny_encoder import CONTEXT, WIDTH, write_tiny_encoder


@pytest.fixture(scope="module", params=["encoder", "ranker"])
def special(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """A service whose model only embeds, or only ranks."""
    folder = tmp_path_factory.mktemp(request.param)
    pooling = PoolingType.RANK if request.param == "ranker" else PoolingType.MEAN
    path = write_tiny_encoder(folder / f"{request.param}.gguf", pooling=pooling)
    service = start_service(folder, "uvicorn", SKIPPY_MODEL_PATH=str(path))
    yield service
    stop_service(service)


def _similarity(one: list[float], other: list[float]) -> float:
    return float(np.dot(one, other))


def test_the_official_client_gets_the_same_in_both_formats(live: LiveService) -> None:
    texts = ["The sea is deep and blue.", "Water, as far as one can see.", "1 + 1 = 2"]
    client = live.client()
    # Without an encoding_format the client asks for base64, and decodes it.
    coded = client.embeddings.create(model=live.model, input=texts)
    plain = client.embeddings.create(model=live.model, input=texts, encoding_format="float")

    assert coded.usage.prompt_tokens == plain.usage.total_tokens > 10
    assert [item.index for item in coded.data] == [0, 1, 2] and coded.model == live.model
    for one, other in zip(coded.data, plain.data, strict=True):
        assert math.isclose(_similarity(one.embedding, one.embedding), 1, abs_tol=1e-4)
        assert _similarity(one.embedding, other.embedding) > 0.999
    assert _similarity(coded.data[0].embedding, coded.data[2].embedding) < 0.99


def test_the_body_is_what_the_schema_says(live: LiveService) -> None:
    answer = live.post("/embeddings", {"model": live.model, "input": ["a", "b"]})
    validate(answer.json(), "CreateEmbeddingResponse")
    # The schema knows no base64, which OpenAI's own clients ask for.
    for item in answer.json()["data"]:
        validate(item, "Embedding")


def test_tokens_texts_and_dimensions(live: LiveService) -> None:
    client = live.client()
    ids = live.post("/tokenize", {"model": live.model, "prompt": "the sea"}).json()["tokens"]
    by_text = client.embeddings.create(model=live.model, input="the sea").data[0].embedding
    by_ids = client.embeddings.create(model=live.model, input=ids).data[0].embedding
    assert _similarity(by_text, by_ids) > 0.999
    short = client.embeddings.create(model=live.model, input="the sea", dimensions=8).data[0].embedding
    head = np.array(by_text[:8])
    assert len(short) == 8 and _similarity(short, list(head / np.linalg.norm(head))) > 0.999
    width = live.client().models.retrieve(live.model).model_dump()["embedding_length"]
    assert width == len(by_text)


def test_many_texts_in_one_request_and_a_long_one(live: LiveService) -> None:
    texts = [f"Text number {index}." for index in range(40)]
    data = live.client().embeddings.create(model=live.model, input=texts).data
    alone = live.client().embeddings.create(model=live.model, input=texts[17]).data[0].embedding
    assert len(data) == 40 and _similarity(data[17].embedding, alone) > 0.999
    long = live.client().embeddings.create(model=live.model, input="word " * 700)
    assert long.usage.prompt_tokens > 600


@pytest.mark.parametrize(
    "value",
    [
        [],
        "",
        [""],
        ["a"] * 10_000,
        [["a"]],
        [[[[]]]],
        {"a": [1]},
        [10**6],
        [-1],
        [[1], [10**9]],
        "word " * 20_000,
        "x" * 3_000_000,
    ],
    ids=lambda value: str(value)[:20],
)
def test_hostile_inputs_are_400_and_harm_nobody(live: LiveService, value: object) -> None:
    answer = live.post("/embeddings", {"model": live.model, "input": value})
    assert answer.status_code == 400, answer.text[:500]
    validate(answer.json(), "ErrorResponse")
    assert answer.json()["error"]["param"].startswith("input")


def test_half_a_surrogate_pair_is_400(live: LiveService) -> None:
    body = b'{"model": "%s", "input": "\\ud800"}' % live.model.encode()
    assert live.post("/embeddings", body).status_code == 400
    odd = live.post("/embeddings", {"model": live.model, "input": "\U0001f638 <|im_end|> \0 ﷽"})
    assert odd.status_code == 200


def test_who_leaves_leaves_nothing_behind(live: LiveService) -> None:
    body = {"model": live.model, "input": ["some words " * 100] * 200}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{live.url}/v1/embeddings", json=body, headers=live.auth, timeout=1)
    # The two hundred would have taken minutes.
    began = time.monotonic()
    assert live.post("/embeddings", {"model": live.model, "input": "short"}).status_code == 200
    assert time.monotonic() - began < 40


def test_a_stream_and_embeddings_beside_each_other(live: LiveService) -> None:
    outcomes: list[int] = []

    def embed() -> None:
        for _ in range(3):
            answer = live.post("/embeddings", {"model": live.model, "input": ["some words"] * 10})
            outcomes.append(answer.status_code)

    thread = threading.Thread(target=embed)
    thread.start()
    chunks = live.events(messages=[{"role": "user", "content": "Count to ten."}], max_tokens=30)
    thread.join()
    assert chunks[-1] == "[DONE]" and outcomes == [200, 200, 200]


def test_a_model_that_generates_does_not_rank(live: LiveService) -> None:
    answer = live.post("/rerank", {"model": live.model, "query": "q", "documents": ["d"]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "model")


def test_a_model_of_its_own(special: LiveService) -> None:
    model = httpx.get(f"{special.url}/v1/models/{special.model}", headers=special.auth).json()
    chat = special.chat()
    assert chat.status_code == 400 and chat.json()["error"]["param"] == "model"
    if model["capabilities"] == ["rerank"]:
        asked = {"model": special.model, "query": "sea", "documents": ["the sea", "a stone", "rain"]}
        ranked = special.post("/rerank", {**asked, "top_n": 2, "return_documents": True}).json()
        first, second = ranked["results"]
        assert first["relevance_score"] >= second["relevance_score"]
        assert first["document"]["text"] == asked["documents"][first["index"]]
        with pytest.raises(openai.BadRequestError):
            special.client().embeddings.create(model=special.model, input="sea")
        long = special.post("/rerank", {**asked, "documents": ["sea", "the sea " * CONTEXT]})
        assert long.json()["error"]["param"] == "documents[1]"
    else:
        assert model["capabilities"] == ["embedding"] and model["embedding_length"] == WIDTH
        data = special.client().embeddings.create(model=special.model, input=["sea", "rain and sun"]).data
        assert [len(item.embedding) for item in data] == [WIDTH, WIDTH]
        long = special.post("/embeddings", {"model": special.model, "input": ["sea", "the sea " * CONTEXT]})
        assert long.json()["error"]["code"] == "context_length_exceeded"
        assert long.json()["error"]["param"] == "input[1]"


def test_records_count_their_tokens(live: LiveService) -> None:
    usage = live.client().embeddings.create(model=live.model, input="the sea and the stone").usage
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        rows = live.manage(
            "shell",
            "-v0",
            "-c",
            "import json; from inference.models import GenerationRecord as R; "
            "r = R.objects.filter(endpoint='embeddings').order_by('-created_at').first(); "
            "print(json.dumps([r.num_input_tokens, r.num_output_tokens, r.outcome] if r else None))",
        )
        found = json.loads(rows.strip().splitlines()[-1])
        if found == [usage.prompt_tokens, 0, "completed"]:
            return
        time.sleep(0.5)
    raise AssertionError(found)
