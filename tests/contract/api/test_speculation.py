"""Drafts as callers see them: nothing but time, and two counts that say what it was good for."""

import uuid

import pytest

LOOKUP = {"mode": "prompt_lookup", "max_draft_tokens": 4}
TEXT = "the cat sat on the mat and the dog sat on the log and " * 8


def complete(live, text, **fields):
    body = {"model": live.model, "prompt": text, "temperature": 0, "max_tokens": 64, "ignore_eos": True}
    answer = live.post("/completions", {**body, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_timings_count_drafts_only_where_there_were_some(live):
    plain = complete(live, TEXT, prompt_cache_key=uuid.uuid4().hex)["timings"]
    assert "draft_n" not in plain

    # Whether drafts pay is measured, and here many share the machine; that they are tried is certain.
    for _ in range(20):
        drafted = complete(live, TEXT, max_tokens=200, speculation=LOOKUP)["timings"]
        if "draft_n" in drafted:
            break
    assert 0 <= drafted["draft_n_accepted"] <= drafted["draft_n"]
    counted = live.statistics()["engine"]
    assert counted["total_drafted_tokens"] >= drafted["draft_n"]


@pytest.mark.parametrize(
    ("speculation", "param"),
    [({"mode": "draft_model"}, "speculation.mode"), ({"mode": "sometimes"}, "speculation.mode")],
)
def test_what_the_model_cannot_do_is_refused_by_name(live, speculation, param):
    body = {"model": live.model, "messages": [{"role": "user", "content": "Hi"}], "speculation": speculation}
    answer = live.post("/chat/completions", body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
