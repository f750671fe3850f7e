"""GET /v1/usage and GET /metrics of a live service, after true answers."""

from __future__ import annotations

import csv
import io
import json
import time

import httpx
from prometheus_client.parser import text_string_to_metric_families


def usage(live, query: str = "") -> dict:
    answer = httpx.get(f"{live.url}/v1/usage{query}", headers=live.auth, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()


def until_counted(live, num_requests: int, *, within_s: float = 1.0) -> dict:
    deadline = time.monotonic() + within_s
    while (found := usage(live))["requests"] < num_requests:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def test_an_answer_counts_at_once_and_as_its_usage_says(live):
    before = usage(live)

    said = live.chat("Count to three", max_tokens=6).json()["usage"]

    after = until_counted(live, before["requests"] + 1)
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert after[name] - before[name] == said[name], name
    assert after["total_tokens"] == after["prompt_tokens"] + after["completion_tokens"]


def test_a_client_that_leaves_counts_as_well(live):
    before = usage(live)

    with httpx.stream(
        "POST",
        f"{live.url}/v1/chat/completions",
        headers=live.auth,
        json={
            "model": live.model,
            "stream": True,
            "max_tokens": 400,
            "ignore_eos": True,
            "messages": [{"role": "user", "content": "A long story"}],
        },
        timeout=30,
    ) as response:
        for number, _ in enumerate(response.iter_lines()):
            if number > 20:
                break

    after = until_counted(live, before["requests"] + 1)
    assert after["completion_tokens"] > before["completion_tokens"]
    lost = after["outcomes"]["client_disconnect"]["requests"]
    assert lost == before["outcomes"].get("client_disconnect", {"requests": 0})["requests"] + 1


def test_report_days_and_csv_say_the_same(live):
    live.alive()
    whole = usage(live, "?bucket=day&time_zone=Asia/Kathmandu")

    text = httpx.get(f"{live.url}/v1/usage?format=csv", headers=live.auth, timeout=10).text

    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == whole["requests"]
    assert sum(int(row["completion_tokens"]) for row in rows) == whole["completion_tokens"]
    assert sum(bucket["total_tokens"] for bucket in whole["buckets"]) == whole["total_tokens"]


def test_a_key_without_requests_has_used_nothing(live):
    key = json.loads(live.manage("api_key_create", "--user", "bob", "--name", "new", "--json"))["key"]

    found = httpx.get(f"{live.url}/v1/usage", headers={"Authorization": f"Bearer {key}"}, timeout=10).json()

    assert (found["requests"], found["total_tokens"], found["outcomes"]) == (0, 0, {})


def test_metrics_are_for_prometheus_and_under_names_that_vllm_has(live):
    live.alive()

    answer = httpx.get(f"{live.url}/metrics", timeout=10)

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:prompt_tokens",
        "vllm:generation_tokens",
        "vllm:request_success",
        "vllm:time_to_first_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "skippy_requests",
        "skippy_telemetry_dropped",
    ):
        assert families[name].samples, name
    sinks = {sample.labels["sink"]: sample.value for sample in families["skippy_telemetry_failed"].samples}
    assert sinks == {"database": 0.0}


def test_metrics_behind_an_unnamed_proxy_want_a_key(live):
    answer = httpx.get(f"{live.url}/metrics", headers={"X-Forwarded-For": "203.0.113.1"}, timeout=10)

    assert answer.status_code == 401
