from __future__ import annotations

import pytest

from inference.domain.errors import UnsupportedParameter
from inference.domain.tools import ToolCall
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
        {"type": "image_url", "image_url": {"url": "ftp://169.254.169.254/"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "video_url", "video_url": {"url": "data:;base64,AAAA"}},
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


@pytest.mark.parametrize("role", ["user", "tool"])
def test_pictures_keep_their_places_among_the_text(role: str) -> None:
    pictures = [{"type": "image_url", "image_url": {"url": f"data:;base64,{name}AAA"}} for name in "ab"]
    content = [text_part("see"), pictures[0], pictures[1], text_part("there")]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    turn = {"role": role, "content": content} | ({"tool_call_id": "c"} if role == "tool" else {})
    message = chat(messages=[*user(), *history, turn]).messages[-1]
    first, second = message.media
    assert message.content == f"see\n{first.mark}\n{second.mark}\nthere"
    assert [part.param for part in message.media] == ["messages[2].content[1]", "messages[2].content[2]"]
    assert first.data != second.data


@pytest.mark.parametrize("role", ["system", "developer", "assistant"])
def test_only_users_and_tools_show_pictures(role: str) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}
    error = chat_refusal(messages=[*user(), {"role": role, "content": [part]}])
    assert error.param == "messages[1].content[0]"


def test_a_picture_alone_is_something_said() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:;base64,AAAA"}}
    assert len(chat(messages=user([part])).messages[0].media) == 1


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


def assistant(*calls: object, content: object = None, **extra: object) -> dict[str, object]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **extra}


def call(call_id: object = "c1", name: object = "f", arguments: object = "{}") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: object = "c1", content: object = "1") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_calls_and_their_results_come_along() -> None:
    messages = chat(
        messages=[
            *user(),
            assistant(call("c1"), call("c2", "g", '{"a": 1}'), content="Let me see."),
            result("c2", [text_part("two"), text_part("parts")]),
            result("c1", None),
            *user("more"),
            result("c1"),
        ]
    ).messages
    assert messages[1].content == "Let me see."
    assert messages[1].tool_calls == (ToolCall("c1", "f", "{}"), ToolCall("c2", "g", '{"a": 1}'))
    assert [(one.role, one.content, one.tool_call_id) for one in messages[2:4]] == [
        ("tool", "two\nparts", "c2"),
        ("tool", None, "c1"),
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{}", "{}"),
        ("", ""),
        ("not json", "not json"),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        (None, "{}"),
        ({"a": "é"}, '{"a": "é"}'),
    ],
)
def test_odd_arguments_are_text(arguments: object, text: str) -> None:
    messages = chat(messages=[*user(), assistant(call(arguments=arguments))]).messages
    assert messages[1].tool_calls[0].arguments == text


def test_null_is_no_text_and_no_word() -> None:
    answer = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [], "audio": None}
    request = chat(messages=[*user(), answer, *user("more")])
    assert [message.content for message in request.messages] == ["Say hi", None, "more"]
    assert request.ignored_parameters == ()
    assert chat(messages=[*user(), {"role": "assistant", "tool_calls": None}]).messages[1].content is None


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_thinking_in_the_history_is_kept_apart(key: str) -> None:
    answer = {"role": "assistant", "content": "Yes", key: "Hm"}
    message = chat(messages=[*user(), answer]).messages[1]
    assert (message.content, message.reasoning) == ("Yes", "Hm")
    assert chat(messages=[*user(), {**answer, key: ""}]).messages[1].reasoning is None
    assert chat_refusal(messages=[*user(), {**answer, key: 5}]).param == f"messages[1].{key}"


def test_a_refusal_stands_for_the_text_that_is_not_there() -> None:
    answers = [
        {"role": "assistant", "content": None, "refusal": "I will not"},
        {"role": "assistant", "content": "", "refusal": "I will not"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not"}]},
    ]
    assert {message.content for message in chat(messages=answers).messages} == {"I will not"}


@pytest.mark.parametrize(
    ("turn", "param"),
    [
        (result("zz"), "tool_call_id"),
        (result(None), "tool_call_id"),
        (result(5), "tool_call_id"),
        (result("x" * 300), "tool_call_id"),
        ({"role": "function", "name": "f", "content": "1"}, "role"),
        (assistant(call(None)), "tool_calls[0].id"),
        (assistant(call("")), "tool_calls[0].id"),
        (assistant(call(), call("c2", None)), "tool_calls[1].function.name"),
        (assistant(call(name="x" * 300)), "tool_calls[0].function.name"),
        (assistant(call(arguments=5)), "tool_calls[0].function.arguments"),
        (assistant(call(arguments=["x"])), "tool_calls[0].function.arguments"),
        (assistant("x"), "tool_calls[0]"),
        (assistant({"id": "c", "type": "function"}), "tool_calls[0].function"),
        (assistant(*[call(str(index)) for index in range(129)]), "tool_calls"),
        ({"role": "assistant", "tool_calls": "x"}, "tool_calls"),
    ],
)
def test_what_is_wrong_with_calls_and_results_is_named(turn: object, param: str) -> None:
    error = chat_refusal(messages=[*user(), turn])
    assert error.param == f"messages[1].{param}"


def test_a_result_that_comes_before_its_call_answers_nothing() -> None:
    assert chat_refusal(messages=[*user(), result(), assistant(call())]).param == "messages[1].tool_call_id"


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"tool_calls": [{"id": "a", "type": "custom", "custom": {}}]}, "tool_calls[0].type"),
        ({"function_call": {"name": "f", "arguments": ""}}, "function_call"),
        ({"audio": {"id": "x"}}, "audio"),
    ],
)
def test_what_we_do_not_have_is_refused_in_a_history_too(extra: dict[str, object], param: str) -> None:
    error = chat_refusal(messages=[*user(), {"role": "assistant", "content": None, **extra}])
    assert isinstance(error, UnsupportedParameter)
    assert error.param == f"messages[1].{param}"


def test_calls_count_as_messages_do() -> None:
    turns = [assistant(*[call(str(index)) for index in range(128)]) for _ in range(130)]
    assert chat_refusal(messages=[*user(), *turns]).param == "messages"


def test_calls_alone_are_a_conversation() -> None:
    assert chat(messages=[assistant(call())]).messages[0].tool_calls


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
