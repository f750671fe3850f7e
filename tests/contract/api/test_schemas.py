"""What is really sent validates against OpenAI's published schemas."""

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = json.loads((Path(__file__).parents[2] / "schemas" / "openai.json").read_text())


def validate(value, name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", **SCHEMAS}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_models(live):
    answer = live.client().models.list().model_dump()
    validate(answer | {"object": "list"}, "ListModelsResponse")


@pytest.mark.parametrize("usage", [True, False])
def test_chat(live, usage):
    validate(live.chat().json(), "CreateChatCompletionResponse")
    chunks = live.events(
        messages=[{"role": "user", "content": "hi"}], max_tokens=5, stream_options={"include_usage": usage}
    )

    assert chunks[-1] == "[DONE]"
    for chunk in chunks[:-1]:
        validate(chunk, "CreateChatCompletionStreamResponse")
    for chunk in chunks[:-2]:
        assert ("usage" in chunk) is usage and chunk.get("usage") is None
    assert (chunks[-2]["choices"] == []) is usage
    assert len({(c["id"], c["created"], c["system_fingerprint"]) for c in chunks[:-1]}) == 1


def test_completions(live):
    asked = {"model": live.model, "prompt": "hi", "max_tokens": 3}
    validate(live.post("/completions", asked).json(), "CreateCompletionResponse")
    chunks = live.events("/completions", prompt="hi", max_tokens=3)
    assert chunks[-1] == "[DONE]"
    assert chunks[-2]["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    ("path", "body"),
    [("/chat/completions", b"{"), ("/nope", b"{}"), ("/models", b"{}"), ("/chat/completions", b"{}")],
)
def test_errors(live, path, body):
    answer = live.post(path, body)

    assert 400 <= answer.status_code < 500
    validate(answer.json(), "ErrorResponse")
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("stop", [None, ["o"]])
def test_logprobs_of_a_chat(live, stop):
    asked = {"max_tokens": 8, "logprobs": True, "top_logprobs": 3, "temperature": 0, "stop": stop}
    answer = live.chat("Count to ten.", **asked).json()
    validate(answer, "CreateChatCompletionResponse")
    choice = answer["choices"][0]
    tokens = choice["logprobs"]["content"]
    assert bytes(b for token in tokens for b in token["bytes"] or []).decode() == choice["message"]["content"]
    for token in tokens:
        likely = token["top_logprobs"]
        assert len(likely) == 3 and likely[0]["logprob"] == token["logprob"] <= 0
        assert likely[0]["logprob"] >= likely[1]["logprob"] >= likely[2]["logprob"]
    assert live.chat(logprobs=True).json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    chunks = live.events(messages=[{"role": "user", "content": "Count to ten."}], **asked)[:-1]
    streamed = []
    for chunk in chunks:
        validate(chunk, "CreateChatCompletionStreamResponse")
        streamed += (chunk["choices"][0]["logprobs"] or {"content": []})["content"]
    assert [token["token"] for token in streamed] == [token["token"] for token in tokens]


def test_logprobs_of_a_completion(live):
    asked = {"model": live.model, "prompt": "One two", "max_tokens": 3, "logprobs": 2}
    answer = live.post("/completions", asked).json()
    validate(answer, "CreateCompletionResponse")
    choice = answer["choices"][0]
    found = choice["logprobs"]
    assert len({len(values) for values in found.values()}) == 1
    for token, offset in zip(found["tokens"], found["text_offset"], strict=True):
        assert choice["text"][offset:].startswith(token)
