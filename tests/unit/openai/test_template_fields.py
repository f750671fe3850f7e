from __future__ import annotations

import pytest

from inference.domain.conversation import TemplateOptions
from inference.domain.errors import UnsupportedParameter
from inference.domain.messages import ChatMessage
from inference.openai.template_fields import MAX_KWARGS_CHARS, MAX_TEMPLATE_CHARS, RESERVED_KWARGS
from tests.unit.openai.bodies import chat, chat_refusal, user

ANSWER = {"role": "assistant", "content": "The answer is"}
CALLING = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}


def test_without_a_word_it_is_the_models_own_template() -> None:
    assert chat().template == TemplateOptions()
    assert chat(chat_template=None, chat_template_kwargs=None, documents=[], jinja=True).template == (
        TemplateOptions()
    )


def test_variables_and_documents_come_along() -> None:
    template = chat(
        chat_template_kwargs={"style": ["a", {"b": None}], "custom": True},
        documents=[{"title": "T", "text": "x"}],
        chat_template="{{ messages }}",
    ).template
    assert template.kwargs == {"style": ["a", {"b": None}], "custom": True}
    assert template.documents == ({"title": "T", "text": "x"},)
    assert template.source == "{{ messages }}"


@pytest.mark.parametrize("name", sorted(RESERVED_KWARGS))
def test_variables_that_are_the_services_own_cannot_be_set(name: str) -> None:
    for value in ([], None, "<|im_start|>system"):
        assert chat_refusal(chat_template_kwargs={name: value}).param == f"chat_template_kwargs.{name}"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs"),
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {str(index): 1 for index in range(129)}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x" * 257: 1}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"x": "y" * MAX_KWARGS_CHARS}}, "chat_template_kwargs"),
        ({"chat_template": 5}, "chat_template"),
        ({"chat_template": " "}, "chat_template"),
        ({"chat_template": "x" * (MAX_TEMPLATE_CHARS + 1)}, "chat_template"),
        ({"documents": "x"}, "documents"),
        ({"documents": ["x"]}, "documents"),
        ({"add_generation_prompt": 1}, "add_generation_prompt"),
        ({"continue_final_message": "x"}, "continue_final_message"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"skip_chat_parsing": "x"}, "skip_chat_parsing"),
        ({"jinja": "x"}, "jinja"),
        ({"prefill_assistant": 5}, "prefill_assistant"),
        ({"prefill_assistant": []}, "prefill_assistant"),
        ({"prefill_assistant": {"role": "user", "content": "x"}}, "prefill_assistant.role"),
        ({"prefill_assistant": {"role": "assistant", "content": []}}, "prefill_assistant.content"),
        ({"prefill_assistant": {"content": "x", "tool_calls": []}}, "prefill_assistant.tool_calls"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, object], param: str) -> None:
    assert chat_refusal(**body).param == param


def test_templates_that_are_no_jinja_are_not_supported() -> None:
    error = chat_refusal(jinja=False)
    assert isinstance(error, UnsupportedParameter)
    assert error.param == "jinja"


@pytest.mark.parametrize(
    ("prefill", "expected"),
    [
        ("Sure: ", ChatMessage("assistant", "Sure: ")),
        ({"role": "assistant", "content": "Sure: "}, ChatMessage("assistant", "Sure: ")),
        ({"content": "Sure: "}, ChatMessage("assistant", "Sure: ")),
        ({"reasoning_content": "Hm, "}, ChatMessage("assistant", None, reasoning="Hm, ")),
    ],
)
def test_an_answer_can_be_begun(prefill: object, expected: ChatMessage) -> None:
    request = chat(prefill_assistant=prefill)
    assert request.messages == (ChatMessage("user", "Say hi"), expected)
    assert request.template == TemplateOptions(is_continued=True, has_generation_prompt=False)


@pytest.mark.parametrize("prefill", ["", None, {"role": "assistant", "content": ""}, {"content": None}])
def test_a_blank_beginning_is_none(prefill: object) -> None:
    request = chat(prefill_assistant=prefill)
    assert len(request.messages) == 1
    assert request.template == TemplateOptions()


def test_the_last_message_can_be_continued() -> None:
    request = chat(messages=[*user(), ANSWER], continue_final_message=True, add_generation_prompt=False)
    assert len(request.messages) == 2
    assert request.template == TemplateOptions(is_continued=True, has_generation_prompt=False)


def test_without_a_generation_prompt() -> None:
    assert chat(add_generation_prompt=False).template == TemplateOptions(has_generation_prompt=False)


def test_contradictions_are_refused() -> None:
    continued = {"messages": [*user(), ANSWER], "continue_final_message": True}
    assert chat_refusal(**continued, add_generation_prompt=True).param == "add_generation_prompt"
    assert chat_refusal(**continued, prefill_assistant="x").param == "prefill_assistant"
    assert chat_refusal(messages=[*user(), CALLING], continue_final_message=True).param == "messages"
    assert chat(messages=[*user(), CALLING], prefill_assistant="x").template.is_continued


def test_raw_text_can_be_asked_for() -> None:
    assert chat(skip_chat_parsing=True).wants_raw_text
    assert not chat(skip_chat_parsing=None).wants_raw_text
