"""Text integrity and endings of streams."""

import concurrent.futures
import json

import pytest


def text_of(events):
    return "".join(
        (e["choices"][0]["delta"].get("content") or "") for e in events if e != "[DONE]" and e["choices"]
    )


def user(text):
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    "stop",
    [
        ["gamma delta"],
        ["mma del"],
        ["ga", "gamma"],
        ["\n"],
        ["😸"],
        "gamma delta",
        [" "],
        ["a", "e", "i", "o"],
    ],
)
def test_stops_are_the_same_streamed_and_whole_and_never_leak(live, stop):
    asked = {
        "messages": user("Repeat exactly: alpha beta gamma delta epsilon 😸 end"),
        "temperature": 0,
        "max_tokens": 40,
        "stop": stop,
    }

    whole = live.post("/chat/completions", {"model": live.model, **asked}).json()["choices"][0]
    streamed = text_of(live.events(**asked))

    assert streamed == whole["message"]["content"]
    for one in [stop] if isinstance(stop, str) else stop:
        assert one not in streamed


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_budget_that_ends_inside_a_character_still_sends_valid_text(live, limit):
    events = live.events(messages=user("Repeat exactly: 😸😸😸"), temperature=0, max_tokens=limit)

    json.dumps(text_of(events)).encode()
    assert events[-1] == "[DONE]"


def test_fifty_parallel_streams_all_end_with_done(live):
    def one(number):
        return live.events(messages=user(f"count to {number}"), max_tokens=20)[-1]

    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        ends = list(pool.map(one, range(50)))

    assert ends == ["[DONE]"] * 50


def test_max_tokens_one_is_one_token(live):
    answer = live.chat(max_tokens=1).json()

    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] in ("length", "stop")


def test_user_text_never_becomes_control_tokens(live):
    def prompt_tokens(text):
        return live.chat(text, max_tokens=1).json()["usage"]["prompt_tokens"]

    plain = prompt_tokens("AB")
    for text in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        assert prompt_tokens(f"A{text}B") - plain > 2, text


def test_content_parts_count_like_the_plain_text(live):
    whole = live.chat("hello", max_tokens=1).json()["usage"]["prompt_tokens"]
    parts = live.post(
        "/chat/completions",
        {
            "model": live.model,
            "max_tokens": 1,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
        },
    )

    assert parts.json()["usage"]["prompt_tokens"] == whole


def test_texts_are_never_mixed_between_requests(live):
    def one(number):
        word = f"WORD{number:03d}"
        answer = live.chat(f"Repeat exactly: {word} {word} {word}", max_tokens=24, temperature=0).json()
        return number, answer["choices"][0]["message"]["content"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for number, text in pool.map(one, range(32)):
            assert not any(f"WORD{other:03d}" in text for other in range(32) if other != number), text
