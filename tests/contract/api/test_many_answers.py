"""Many answers to one request, with the official client, against the live service and the real model."""

import json
from collections import defaultdict

import pytest

ASKED = [{"role": "user", "content": "Name an animal, any animal, and say one thing about it."}]


def test_eight_answers_read_like_eight_requests(live):
    client = live.client()
    asked = {"model": live.model, "messages": ASKED, "max_tokens": 12, "seed": 11, "temperature": 1.0}

    whole = client.chat.completions.create(**asked, n=8)

    assert [choice.index for choice in whole.choices] == list(range(8))
    assert all(choice.message.content for choice in whole.choices)
    assert all(choice.finish_reason in ("stop", "length") for choice in whole.choices)
    assert len({choice.message.content for choice in whole.choices}) > 1
    single = client.chat.completions.create(**asked)
    assert whole.usage.prompt_tokens == single.usage.prompt_tokens
    assert 8 <= whole.usage.completion_tokens <= 8 * 12


def test_eight_answers_streamed(live):
    chunks = list(
        live.client().chat.completions.create(
            model=live.model,
            messages=ASKED,
            max_tokens=12,
            n=8,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    assert not chunks[-1].choices
    assert chunks[-1].usage.completion_tokens >= 8
    texts, roles, reasons = defaultdict(str), defaultdict(int), defaultdict(list)
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        roles[choice.index] += choice.delta.role == "assistant"
        if choice.finish_reason:
            reasons[choice.index].append(choice.finish_reason)
    assert sorted(texts) == list(range(8))
    assert all(texts.values())
    assert set(roles.values()) == {1}
    assert all(len(found) == 1 for found in reasons.values())
    assert len(reasons) == 8


@pytest.mark.parametrize("num_choices", [1, 2])
def test_prompts_of_a_list_are_answered_in_their_order(live, num_choices):
    client = live.client()
    prompts = ["One two three four", "Monday Tuesday Wednesday", "a b c d e f"]
    asked = {"model": live.model, "temperature": 0, "max_tokens": 4}

    together = client.completions.create(prompt=prompts, n=num_choices, **asked)

    assert [choice.index for choice in together.choices] == list(range(3 * num_choices))
    alone = [client.completions.create(prompt=prompt, **asked) for prompt in prompts]
    assert together.usage.prompt_tokens == sum(one.usage.prompt_tokens for one in alone)
    assert all(choice.text for choice in together.choices)


def test_best_of(live):
    answer = live.client().completions.create(
        model=live.model, prompt="The sky is", n=2, best_of=6, max_tokens=5, logprobs=0, seed=3
    )

    assert [choice.index for choice in answer.choices] == [0, 1]
    means = [
        sum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs) for choice in answer.choices
    ]
    assert means[0] >= means[1]
    assert answer.usage.completion_tokens > sum(len(one.logprobs.tokens) for one in answer.choices)


def test_more_answers_than_lanes_come_too(live):
    answer = live.chat("Hi", n=20, max_tokens=3)

    assert answer.status_code == 200, answer.text
    assert len(answer.json()["choices"]) == 20


def test_tools_and_forms_hold_for_each_choice(live):
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": {"enum": ["yes", "no"]}}}
    answer = live.chat("Is it so?", n=4, max_tokens=8, response_format=form)

    assert answer.status_code == 200, answer.text
    for choice in answer.json()["choices"]:
        assert json.loads(choice["message"]["content"]) in ("yes", "no")


def test_the_prompts_own_tokens_are_scored(live):
    client = live.client()
    asked = {"model": live.model, "prompt": "The capital of France is Paris.", "logprobs": 2, "echo": True}

    scored = client.completions.create(**asked, max_tokens=0).choices[0]

    assert scored.text == asked["prompt"]
    assert scored.finish_reason == "length"
    found = scored.logprobs
    assert (found.token_logprobs[0], found.top_logprobs[0]) == (None, None)
    assert all(logprob <= 0 for logprob in found.token_logprobs[1:])
    for offset, token in zip(found.text_offset, found.tokens, strict=True):
        assert scored.text[offset:].startswith(token)
    chunks = list(client.completions.create(**asked, max_tokens=4, temperature=0, stream=True))
    whole = client.completions.create(**asked, max_tokens=4, temperature=0).choices[0]
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.text
    assert whole.text.startswith(asked["prompt"])
    tokens = [
        token for chunk in chunks if chunk.choices[0].logprobs for token in chunk.choices[0].logprobs.tokens
    ]
    assert tokens == whole.logprobs.tokens
    assert "".join(tokens) == whole.text
