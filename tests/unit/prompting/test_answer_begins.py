from __future__ import annotations

from inference.prompting.answer_begins import MAX_REMEMBERED, AnswerBegins, begin_key


def test_what_was_remembered_is_found_where_it_is_the_end() -> None:
    begins = AnswerBegins()
    begins.remember("assistant:", "key")
    assert begins.find("Hello assistant:", "key") == "assistant:"
    assert begins.find("Hello assistant: <think>", "key") is None
    assert begins.find("Hello assistant:", "other") is None


def test_nothing_is_not_remembered_and_neither_is_what_is_asked_for_in_a_book() -> None:
    begins = AnswerBegins()
    begins.remember("", "key")
    assert begins.find("Hello", "key") is None
    begins.remember("assistant:", "k" * 10_000)
    assert begins.find("assistant:", "k" * 10_000) is None


def test_the_latest_are_kept() -> None:
    begins = AnswerBegins()
    for index in range(MAX_REMEMBERED + 1):
        begins.remember("assistant:", str(index))
    assert begins.find("assistant:", "0") is None
    assert begins.find("assistant:", str(MAX_REMEMBERED)) == "assistant:"
    begins.remember("model:", "1")
    assert begins.find("model:", "1") == "model:"


def test_keys_tell_roles_and_variables_apart() -> None:
    keys = {
        begin_key(role, variables)
        for role in ("user", "tool")
        for variables in ({}, {"enable_thinking": True}, {"enable_thinking": False}, {"a": [1]})
    }
    assert len(keys) == 8
    assert begin_key("user", {"a": 1, "b": 2}) == begin_key("user", {"b": 2, "a": 1})
