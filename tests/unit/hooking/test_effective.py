from __future__ import annotations

from dataclasses import replace

import pytest

from hooks.contracts.view import MessageView, RequestView, TextPart
from inference.hooking.effective import ViewRefused, effective_request
from inference.hooking.views import request_view
from inference.openai.protocol import OutputRequest
from tests.unit.hooking import requests
from tests.unit.hooking.test_views import LINKED, PICTURE, text


def seen(request: OutputRequest) -> RequestView:
    return request_view(request, endpoint="chat.completions")


def with_text(view: RequestView, index: int, value: str) -> RequestView:
    changed = replace(view.messages[index], parts=(TextPart(value),))
    return replace(view, messages=(*view.messages[:index], changed, *view.messages[index + 1 :]))


def test_what_nobody_touched_is_the_same_object() -> None:
    asked = requests.chat({"role": "system", "content": "a"}, {"role": "user", "content": "b"})
    view = seen(asked)
    assert effective_request(asked, view, view) is asked
    changed = effective_request(asked, view, with_text(view, 1, "c"))
    assert changed.messages[0] is asked.messages[0]
    assert changed.messages[1].content == "c"
    assert asked.messages[1].content == "b"


def test_a_message_that_a_policy_adds_stands_where_it_put_it() -> None:
    asked = requests.chat({"role": "user", "content": "b"})
    view = seen(asked)
    added = MessageView("system", (TextPart("Be good."),))
    changed = effective_request(asked, view, replace(view, messages=(added, *view.messages)))
    assert [(one.role, one.content) for one in changed.messages] == [("system", "Be good."), ("user", "b")]


def test_media_that_were_taken_out_are_gone_and_the_others_stay_in_their_places() -> None:
    asked = requests.chat({"role": "user", "content": [text("look:"), PICTURE, text("and"), LINKED]})
    view = seen(asked)
    (message,) = view.messages
    parts = (message.parts[0], TextPart("(a cat)"), *message.parts[2:])
    changed = effective_request(asked, view, replace(view, messages=(replace(message, parts=parts),)))
    linked = asked.messages[0].media[1]
    assert changed.messages[0].media == (linked,)
    assert changed.messages[0].content == f"look:\n(a cat)\nand\n{linked.mark}"


def test_a_turn_may_lose_all_that_it_had() -> None:
    asked = requests.chat({"role": "user", "content": [PICTURE]}, {"role": "user", "content": "b"})
    view = seen(asked)
    empty = replace(view.messages[0], parts=())
    changed = effective_request(asked, view, replace(view, messages=(empty, view.messages[1])))
    assert (changed.messages[0].content, changed.messages[0].media) == ("", ())


def test_arguments_and_thinking_of_earlier_turns_are_carried_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"to": "a@b.c"}'}}
    asked = requests.chat(
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "a@b.c"},
        {"role": "tool", "content": "ok", "tool_call_id": "c1"},
    )
    view = seen(asked)
    masked = replace(view.messages[0], tool_arguments=('{"to": "***"}',), reasoning="***")
    changed = effective_request(asked, view, replace(view, messages=(masked, view.messages[1])))
    (call_back,) = changed.messages[0].tool_calls
    assert (call_back.id, call_back.name, call_back.arguments) == ("c1", "f", '{"to": "***"}')
    assert (changed.messages[0].reasoning, changed.messages[0].content) == ("***", None)


def test_an_answer_that_is_not_the_last_turn_any_more_is_not_continued() -> None:
    asked = requests.chat(
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, continue_final_message=True
    )
    view = seen(asked)
    added = MessageView("user", (TextPart("c"),))
    changed = effective_request(asked, view, replace(view, messages=(*view.messages, added)))
    assert not changed.template.is_continued
    assert changed.template.has_generation_prompt
    assert effective_request(asked, view, with_text(view, 0, "x")).template.is_continued


def test_prompts_that_came_as_text_are_changed_and_those_of_tokens_stay() -> None:
    asked = requests.completion(["a", "b"])
    view = seen(asked)
    assert effective_request(asked, view, replace(view, prompts=("a", "***"))).prompts == ("a", "***")
    with pytest.raises(ViewRefused):
        effective_request(asked, view, replace(view, prompts=("a", "")))
    asked = requests.completion([1, 2])
    view = seen(asked)
    assert effective_request(asked, view, replace(view, token_texts=())).prompts == ((1, 2),)
    assert effective_request(asked, view, replace(view, prompts=("x",))).prompts == ("x",)


def test_what_stands_beside_turns_is_carried_back_to_its_place() -> None:
    described = {"type": "string", "title": "t1", "description": "d2", "enum": ["secret"]}
    parameters = {"type": "object", "properties": {"description": described}, "description": "d1"}
    tool = {"type": "function", "function": {"name": "f", "description": "d0", "parameters": parameters}}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = requests.chat(
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "1", "tool_call_id": "c1"},
        tools=[tool],
        documents=[{"text": "first", "pages": ["second"]}],
    )
    view = seen(asked)
    changed = effective_request(
        asked, view, replace(view, beside_texts=tuple(text.upper() for text in view.beside_texts))
    )
    (spec,) = changed.tool_use.tools
    assert (spec.name, spec.description) == ("f", "D0")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "description": {"type": "string", "title": "T1", "description": "D2", "enum": ["secret"]}
        },
        "description": "D1",
    }
    assert changed.template.documents == ({"text": "FIRST", "pages": ["SECOND"]},)
    assert [call.id for call in changed.messages[1].tool_calls] == ["C1"]
    assert changed.messages[2].tool_call_id == "C1"
    assert effective_request(asked, view, view) is asked


def test_a_masked_name_is_carried_back() -> None:
    asked = requests.chat({"role": "user", "content": "Hi", "name": "ada"})
    view = seen(asked)
    masked = replace(view, messages=(replace(view.messages[0], name="***"),))
    assert effective_request(asked, view, masked).messages[0].name == "***"


def test_no_message_at_all_is_refused() -> None:
    asked = requests.chat()
    view = seen(asked)
    with pytest.raises(ViewRefused):
        effective_request(asked, view, replace(view, messages=()))


def test_text_that_cannot_be_written_is_made_readable() -> None:
    asked = requests.chat()
    view = seen(asked)
    changed = effective_request(asked, view, with_text(view, 0, "a\ud800b"))
    assert changed.messages[0].content == "a?b"


def test_a_response_keeps_what_is_its_own() -> None:
    asked = requests.response("Hi", instructions="Be good.")
    view = seen(asked)
    changed = effective_request(asked, view, with_text(view, 1, "Ho"))
    assert changed.instructions == "Be good."
    assert [one.content for one in changed.messages] == ["Be good.", "Ho"]
