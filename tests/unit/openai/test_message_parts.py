from __future__ import annotations

import pytest

from inference.domain.errors import UnsupportedParameter
from inference.openai.message_parts import MAX_MESSAGES_AND_PARTS
from tests.unit.openai.bodies import chat, chat_refusal, user


def text_part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_every_role_may_send_text_parts(role: str) -> None:
    messages = [{"role": role, "content": [text_part("a"), text_part("b")]}]
    (message,) = chat(messages=messages).messages
    assert (message.role, message.content) == (role, "a\nb")


def test_one_part_is_the_same_as_its_text() -> None:
    assert chat(messages=user([text_part("hello")])).messages == chat(messages=user("hello")).messages


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "input_audio", "input_audio": {}},
        {"type": "file", "file": {}},
        {"type": "zzz"},
        {"type": "text"},
        {"text": "x"},
        "x",
        5,
        None,
        [],
        {"type": "text", "text": 5},
        {"type": ["text"]},
        {"type": "refusal", "refusal": "no"},
    ],
)
def test_what_is_no_text_part_is_refused_by_its_place(part: object) -> None:
    error = chat_refusal(messages=[*user(), *user([text_part("a"), part])])
    assert error.param == "messages[1].content[1]"
    assert "169.254" not in error.message


def test_a_name_comes_along() -> None:
    messages = [
        {"role": "user", "content": "x", "name": "Ann"},
        {"role": "user", "content": "x", "name": None},
    ]
    assert [message.name for message in chat(messages=messages).messages] == ["Ann", None]
    assert chat_refusal(messages=[{"role": "user", "content": "x", "name": 5}]).param == "messages[0].name"


@pytest.mark.parametrize("role", ["root", "function", "User", "", 5, None])
def test_unknown_roles(role: object) -> None:
    assert chat_refusal(messages=[{"role": role, "content": "x"}]).param == "messages[0].role"


def test_a_tool_result_without_a_call_is_refused() -> None:
    error = chat_refusal(messages=[*user(), {"role": "tool", "tool_call_id": "zz", "content": "1"}])
    assert error.param == "messages[1].role"


def test_an_answer_in_the_history_may_have_no_text() -> None:
    answer = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [], "audio": None}
    request = chat(messages=[*user(), answer, *user("more")])
    assert [message.content for message in request.messages] == ["Say hi", "", "more"]
    assert request.ignored_parameters == ()


@pytest.mark.parametrize(
    "extra",
    [
        {"tool_calls": [{"id": "a"}]},
        {"function_call": {"name": "f", "arguments": ""}},
        {"audio": {"id": "x"}},
    ],
)
def test_calls_in_the_history_are_not_supported_yet(extra: dict[str, object]) -> None:
    error = chat_refusal(messages=[*user(), {"role": "assistant", "content": None, **extra}])
    assert isinstance(error, UnsupportedParameter)
    assert error.param == f"messages[1].{next(iter(extra))}"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        None,
        "hi",
        {"role": "user"},
        user(""),
        user("  \n"),
        user([]),
        user([text_part(" ")]),
        [{}],
        [5],
        [None],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": {"type": "text"}}],
    ],
)
def test_conversations_without_a_word_are_refused(messages: object) -> None:
    assert (chat_refusal(messages=messages).param or "").startswith("messages")


def test_one_blank_message_among_others_is_fine() -> None:
    assert len(chat(messages=[*user(""), *user("x")]).messages) == 2


def test_their_number_is_bounded() -> None:
    assert chat_refusal(messages=user("x") * (MAX_MESSAGES_AND_PARTS + 1)).param == "messages"
    parts = [text_part("x")] * (MAX_MESSAGES_AND_PARTS + 1)
    assert chat_refusal(messages=user(parts)).param == "messages"


def test_unknown_fields_of_messages_are_listed_once() -> None:
    messages = [{"role": "user", "content": "x", "cache_control": {}} for _ in range(3)]
    assert chat(messages=messages).ignored_parameters == ("messages[].cache_control",)
