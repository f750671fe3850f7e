"""`echo`: the prompt as the beginning of its answer, streamed or whole, with and without its scores."""

from __future__ import annotations

import json

import pytest

from inference.domain.events import FinishReason
from tests.unit.openai.test_rendering import validator

COMPLETIONS = "/v1/completions"


def completion(**fields: object) -> bytes:
    return json.dumps({"model": "scripted", "prompt": "abc", "echo": True, **fields}).encode()


def play(handle) -> None:
    handle.start()
    if handle.request.num_prompt_logprobs is not None:
        handle.score_prompt(1)
    if handle.request.max_tokens:
        handle.say("de")
    handle.finish(FinishReason.LENGTH)


def gathered(chunks, index: int = 0):
    """Text and logprobs of one choice of a stream."""
    text, lists = "", {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            text += choice["text"]
            for name, values in (choice["logprobs"] or {}).items():
                lists[name] += values
    return text, lists


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("prompt", ["abc", [97, 98, 99]])
async def test_the_prompt_comes_first(site, prompt, is_stream):
    site.engine.play = play
    answer = await site.post(COMPLETIONS, completion(prompt=prompt, stream=is_stream))
    if is_stream:
        text, lists = gathered(answer.events()[:-1])
        assert not lists["tokens"]
    else:
        validator("CreateCompletionResponse").validate(answer.json())
        text = answer.json()["choices"][0]["text"]
        usage = answer.json()["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 2)
    assert text == "abcde"
    assert site.engine.handles[0].request.num_prompt_logprobs is None


@pytest.mark.parametrize("is_stream", [False, True])
async def test_the_prompts_tokens_have_their_scores_but_the_first(site, is_stream):
    site.engine.play = play
    answer = await site.post(COMPLETIONS, completion(logprobs=1, stream=is_stream))
    if is_stream:
        text, logprobs = gathered(answer.events()[:-1])
    else:
        choice = answer.json()["choices"][0]
        text, logprobs = choice["text"], choice["logprobs"]
    assert text == "abcde"
    assert "".join(logprobs["tokens"]) == text
    assert logprobs["text_offset"] == [0, 1, 2, 3, 4]
    assert logprobs["token_logprobs"] == [None, -0.098, -0.099, -0.1, -0.101]
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["top_logprobs"][1] == {"b": -0.098}
    assert site.engine.handles[0].request.num_prompt_logprobs == 1


async def test_all_but_the_nulls_fits_the_schema(site):
    site.engine.play = play
    body = (await site.post(COMPLETIONS, completion(logprobs=0))).json()
    logprobs = body["choices"][0]["logprobs"]
    assert (logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]) == (None, None)
    logprobs["token_logprobs"][0], logprobs["top_logprobs"][0] = 0.0, {}
    validator("CreateCompletionResponse").validate(body)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_scoring_alone(site, is_stream):
    site.engine.play = play
    answer = await site.post(COMPLETIONS, completion(logprobs=0, max_tokens=0, stream=is_stream))
    assert answer.status == 200
    if is_stream:
        chunks = answer.events()[:-1]
        text, logprobs = gathered(chunks)
        assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    else:
        choice = answer.json()["choices"][0]
        text, logprobs = choice["text"], choice["logprobs"]
        assert choice["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == 0
    assert text == "abc"
    assert logprobs["token_logprobs"] == [None, -0.098, -0.099]
    assert site.engine.handles[0].request.max_tokens == 0
    assert len(site.records) == 1


async def test_nothing_is_generated_only_where_the_prompt_is_echoed(site):
    site.engine.play = play
    refused = await site.post(COMPLETIONS, completion(echo=False, max_tokens=0))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "max_tokens")
    assert (await site.post(COMPLETIONS, completion(max_tokens=0))).json()["choices"][0]["text"] == "abc"


@pytest.mark.parametrize("is_stream", [False, True])
async def test_each_choice_echoes_its_own_prompt(site, is_stream):
    site.engine.play = play
    body = completion(prompt=["abc", "xy"], n=2, logprobs=0, stream=is_stream)
    answer = await site.post(COMPLETIONS, body)
    if is_stream:
        found = [gathered(answer.events()[:-1], index) for index in range(4)]
    else:
        found = [(choice["text"], choice["logprobs"]) for choice in answer.json()["choices"]]
    assert [text for text, _ in found] == ["abcde", "abcde", "xyde", "xyde"]
    assert [logprobs["token_logprobs"][0] for _, logprobs in found] == [None] * 4
    assert [len(logprobs["tokens"]) for _, logprobs in found] == [5, 5, 4, 4]


async def test_the_best_answers_are_told_by_what_was_generated(site):
    def speak(handle):
        number = handle.request.sampling.seed
        handle.start().score_prompt().say("z" if number == 0 else "aaaaaaaa").finish()

    site.engine.play = speak
    body = completion(prompt="!!!!!!", n=1, best_of=2, seed=0, logprobs=0)
    answer = await site.post(COMPLETIONS, body)
    assert answer.json()["choices"][0]["text"] == "!!!!!!aaaaaaaa"


async def test_a_stop_string_in_the_prompt_ends_nothing(site):
    site.engine.play = play
    answer = await site.post(COMPLETIONS, completion(stop=["b"]))
    assert answer.json()["choices"][0]["text"] == "abcde"
