"""Inputs that nobody should send. Each is answered in the API's own shape, and the service goes on."""

import concurrent.futures
import json
import time
from functools import partial

import httpx
import pytest

LEAKS = ("Traceback", "site-packages", "DETAIL:", "psycopg", "0x7f")


def is_error(answer: httpx.Response, status: int, code: str | None = None) -> None:
    assert answer.status_code == status, (answer.status_code, answer.text[:500])
    error = answer.json()["error"]
    assert {"message", "type", "param", "code"} <= set(error)
    assert code is None or error["code"] == code
    for leak in LEAKS:
        assert leak not in answer.text


def body(live, **fields) -> bytes:
    return json.dumps(
        {"model": live.model, "max_tokens": 2, "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


@pytest.mark.parametrize(
    "parameter",
    ["temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repeat_penalty"],
)
def test_numbers_that_are_none(live, parameter):
    for value in ("NaN", "Infinity", "-Infinity", "1e400", '"nan"', "1e9", "true", "[]", "{}"):
        raw = body(live)[:-1] + f',"{parameter}":{value}}}'.encode()
        is_error(live.post("/chat/completions", raw), 400)
    live.alive()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"1",
        b'{"model":1,}',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"a":"\x01"}',
        '{"é":1}'.encode("latin-1"),
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"model":"x","messages":' + b"[" * 5000,
    ],
)
def test_bodies_that_are_no_requests(live, raw):
    is_error(live.post("/chat/completions", raw), 400)


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "garbage", ""],
)
def test_any_content_type_is_answered_as_json(live, media):
    answer = live.post("/chat/completions", body(live), **{"Content-Type": media})

    assert answer.status_code in (200, 400, 415)
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True, 10**30, 2**31])
def test_limits_that_are_none(live, value):
    is_error(live.chat(max_tokens=value), 400)


def test_a_huge_limit_is_clamped_and_does_not_fill_the_budget(live):
    answers = []
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        # Greedy, since an answer without an "e" in it would go on until the context is full.
        ask = partial(live.chat, "hi", max_tokens=2**31 - 1, stop=["e"], temperature=0)
        answers = list(pool.map(lambda _: ask(), range(16)))

    assert {a.status_code for a in answers} == {200}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{}],
        [{"role": "user"}],
        None,
        "hi",
        [5],
        ["x"],
        [{"role": "root", "content": "x"}],
        {"role": "user"},
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}],
            }
        ],
        [{"role": "user", "content": [{"type": "zzz"}]}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": ""}],
    ],
)
def test_messages_that_are_none(live, messages):
    is_error(live.post("/chat/completions", body(live, messages=messages)), 400)


@pytest.mark.parametrize(
    "prompt",
    ["", [], [[]], None, 5, [10**9], [-1], [True], {"a": 1}, ["a", ""], ["a", ["b"]], ["a", 5], [[1], []]],
)
def test_prompts_that_are_none(live, prompt):
    answer = live.post("/completions", {"model": live.model, "prompt": prompt, "max_tokens": 2})

    is_error(answer, 400)
    live.alive()


@pytest.mark.parametrize("model", [None, "", 5, ["a"], "a" * 100_000, "../../etc/passwd", "x\u0000"])
def test_models_that_are_none(live, model):
    answer = live.post("/chat/completions", body(live, model=model))

    assert answer.status_code in (400, 404)
    is_error(answer, answer.status_code)


def test_half_of_a_surrogate_pair_anywhere(live):
    half = "\\ud83d"
    for raw in (
        f'{{"model":"{live.model}","max_tokens":2,"messages":[{{"role":"user","content":"x{half}"}}]}}',
        f'{{"model":"{live.model}","max_tokens":2,"stream":true,"messages":[{{"role":"user","content":"{half}"}}]}}',
        f'{{"model":"{live.model}","max_tokens":2,"stop":"{half}","messages":[{{"role":"user","content":"x"}}]}}',
        f'{{"model":"{live.model}","max_tokens":2,"user":"{half}","messages":[{{"role":"user","content":"x"}}]}}',
        f'{{"model":"{half}","messages":[{{"role":"user","content":"x"}}]}}',
    ):
        answer = live.post("/chat/completions", raw.encode())
        assert answer.status_code in (200, 400, 404), answer.text
    live.alive()


@pytest.mark.parametrize(
    "text", ["a\u0000b", "literal \\u0000", "\ufdd0\ufffe", "\u202e", "e\u0301" * 50, "👩‍👩‍👧" * 50]
)
def test_odd_text_is_served_or_refused(live, text):
    answer = live.chat(text, user=text)

    assert answer.status_code in (200, 400), answer.text


def test_long_stops_do_not_slow_each_token(live):
    began = time.monotonic()
    answer = live.chat(stop=["a" * 1_000_000] * 4, max_tokens=4)

    assert answer.status_code in (200, 400)
    assert time.monotonic() - began < 20


def test_parameters_that_we_know_and_do_not_serve_are_named(live):
    refused = {
        "best_of": 2,
        "n_probs": 3,
        "functions": [{"name": "f"}],
        "modalities": ["text", "audio"],
        "chat_template": "x",
        "grammar": "root ::= x",
    }
    for name, value in refused.items():
        answer = live.chat(**{name: value})
        is_error(answer, 400)
        assert answer.json()["error"]["param"].startswith(name), answer.text
    neutral = {
        "n": 1,
        "logprobs": False,
        "logit_bias": {},
        "response_format": {"type": "text"},
        "store": False,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "parallel_tool_calls": True,
        "user": "u",
        "prompt_cache_key": "k",
        "reasoning_effort": "low",
        "verbosity": "low",
    }
    answer = live.chat(**neutral, frobnicate=1)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-ignored-parameters"] == "frobnicate"


@pytest.mark.parametrize(
    "bias",
    [
        {"AI": -100},
        {"-1": 5},
        {"99999999": 5},
        {"1.5": 1},
        {" 5": 1},
        {"5": 101},
        {"5": "x"},
        {"5": None},
        [[5, 1]],
        "x",
        {str(number): 1 for number in range(257)},
    ],
)
def test_biases_that_are_none(live, bias):
    answer = live.chat(logit_bias=bias)

    is_error(answer, 400)
    assert answer.json()["error"]["param"] == "logit_bias"


def test_sampling_that_is_asked_for_happens(live):
    assert live.chat(logit_bias={}).status_code == live.chat(logit_bias=None).status_code == 200
    raw = body(live)[:-1] + b',"logit_bias":{"5":NaN}}'
    is_error(live.post("/chat/completions", raw), 400)
    only = live.chat("Say hi", logit_bias={"100": 100}, temperature=0, max_tokens=3).json()
    assert len(set(only["choices"][0]["message"]["content"])) <= 2
    short = live.chat("Say OK.", logit_bias={"2": 100}, temperature=0, max_tokens=9).json()
    assert short["usage"]["completion_tokens"] == 0
    longer = live.chat("Say OK.", logit_bias={"2": 100}, temperature=0, max_tokens=9, min_tokens=4).json()
    assert longer["usage"]["completion_tokens"] == 4
    is_error(live.chat(min_tokens=9, max_tokens=8), 400)
    live.alive()


def test_bodies_over_the_limit_are_413_by_length_and_by_count(live):
    is_error(live.post("/chat/completions", b"x" * (33 * 1024 * 1024)), 413)

    def parts():
        for _ in range(80):
            yield b"a" * 1_000_000

    try:
        answer = httpx.post(f"{live.url}/v1/chat/completions", content=parts(), headers=live.auth, timeout=60)
        is_error(answer, 413)
    except httpx.WriteError:
        pass  # the server closed while the client still wrote: its right
    live.alive()


def test_a_body_that_cannot_fit_by_its_bytes_alone_is_refused_quickly(live):
    began = time.monotonic()
    is_error(live.chat("a" * 20_000_000), 400, "context_length_exceeded")

    assert time.monotonic() - began < 5


def test_mixed_loads_of_every_size_leave_the_engine_whole(live):
    def one(number):
        return [
            live.chat(
                f"{number} " * (1 + 97 * number % 120), max_tokens=1 + number % 5, temperature=number % 2
            ).status_code
            for _ in range(2)
        ]

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        codes = {code for found in pool.map(one, range(12)) for code in found}

    assert codes == {200}
    live.alive()


def test_every_way_of_sampling_is_served_side_by_side(live):
    ways = [
        {"typical_p": 0.8},
        {"top_nsigma": 1.0},
        {"dynatemp_range": 0.5, "dynatemp_exponent": 2},
        {"xtc": {"probability": 0.5}},
        {"dry": {"multiplier": 0.8, "sequence_breakers": ["\n"]}},
        {"mirostat_mode": 1},
        {"mirostat": 2, "mirostat_tau": 3},
        {"samplers": ["temp", "top_p"]},
        {"sampler_sequence": "kmt", "logprobs": True, "top_logprobs": 1},
        {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0},
    ]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda way: live.chat(max_tokens=4, seed=1, **way), ways))

    assert [answer.status_code for answer in answers] == [200] * len(ways)
    for wrong in ({"dry": {"x": 1}}, {"samplers": ["x"]}, {"mirostat_mode": 2, "top_k": 5}):
        is_error(live.chat(**wrong), 400)
