"""Arguments of calls as objects, whole or broken off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.anthropic.call_input import call_input

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("[1]", {}),
        ('"a"', {}),
        ("{", {}),
        ('{"a"', {}),
        ('{"a": ', {}),
        ('{"a": "half', {}),
        ('{"a": "whole", "b": "ha', {"a": "whole"}),
        ('{"a": 12', {}),
        ('{"a": {"b": [1, 2', {"a": {"b": [1]}}),
        ('{"a": [', {"a": []}),
        ('{"a": 1}}', {"a": 1}),
        ("nonsense", {}),
        ('{"a": "\\"', {}),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ("{" * 5000, {}),
        ('{"a":' + "[" * 100_000, {}),
    ],
)
def test_what_is_complete_is_kept(text: str, value: dict[str, Any]) -> None:
    assert call_input(text) == value


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.data())
def test_a_beginning_of_an_object_never_holds_what_the_object_does_not(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    assert call_input(text) == value
    part = call_input(text[: data.draw(st.integers(0, len(text)))])
    assert _is_part(part, value)


def _is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _is_part(inner, whole[key]) for key, inner in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_is_part, part, whole))
    return bool(part == whole and type(part) is type(whole))


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert isinstance(call_input(text), dict)
    assert isinstance(call_input("{" + text), dict)
