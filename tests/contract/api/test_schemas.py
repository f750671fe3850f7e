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
