"""JSON of values that others chose."""

from __future__ import annotations

import json

import pytest

from inference.openai.json_text import json_bytes

DEEP: object = 1
for _ in range(400):
    DEEP = [DEEP]


@pytest.mark.parametrize("value", [{"a": "é\n\u2028"}, {"a": 2**64, "b": -(10**50)}, DEEP])
def test_what_json_allows_is_written(value: object) -> None:
    data = json_bytes(value)
    assert json.loads(data) == value
    assert b"\n" not in data


def test_half_a_pair_is_a_question_mark() -> None:
    assert json.loads(json_bytes({"a": "x\ud83d"})) == {"a": "x?"}
