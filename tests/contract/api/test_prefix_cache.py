"""Cached tokens as callers see them: truthful, and never another user's."""

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

COMMON = "You answer in one short sentence and never use the letter z. " * 12


def usage(live, text, *, key=None, **fields):
    """(prompt tokens, cached tokens) of one answer."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    messages = [{"role": "system", "content": COMMON + text}, {"role": "user", "content": "Hello"}]
    answer = live.post(
        "/chat/completions", {"model": live.model, "messages": messages, "max_tokens": 2, **fields}, **headers
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()["usage"]
    return found["prompt_tokens"], found["prompt_tokens_details"]["cached_tokens"]


def test_the_same_prompt_again_is_cached_but_for_its_last_token(live):
    text = uuid.uuid4().hex
    num_prompt, _ = usage(live, text)

    assert usage(live, text) == (num_prompt, num_prompt - 1)


def test_keys_and_users_do_not_hit_on_each_other(live):
    text = uuid.uuid4().hex
    other = json.loads(live.manage("api_key_create", "--user", "eve", "--name", "other", "--json"))["key"]
    usage(live, text)
    cache_key = uuid.uuid4().hex

    assert usage(live, text, prompt_cache_key=cache_key)[1] == 0
    assert usage(live, text, prompt_cache_key=f" {cache_key} ")[1] > 0
    assert usage(live, text, prompt_cache_key=f"{cache_key}2")[1] == 0
    assert usage(live, text, key=other, prompt_cache_key=cache_key)[1] == 0


def test_simultaneous_requests_compute_their_system_prompt_once(live):
    fields = {"prompt_cache_key": uuid.uuid4().hex}
    before = live.statistics()["engine"]["total_prefill_tokens"]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda index: usage(live, f" {index}", **fields), range(6)))

    num_computed = live.statistics()["engine"]["total_prefill_tokens"] - before
    assert num_computed == sum(num_prompt - num_cached for num_prompt, num_cached in found)
    assert sorted(num_cached for _, num_cached in found)[0] == 0
    assert all(num_cached > 100 for _, num_cached in sorted(found, key=lambda one: one[1])[1:])
