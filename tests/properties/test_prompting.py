"""Whatever callers write, and wherever: a prompt has the control tokens of its template and no others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall, ToolSpec, ToolUse
from inference.prompting.prompt import PromptBuilder
from tests.chat_templates import ALL, builder, source
from tests.unit.prompting.byte_tokenizer import ByteTokenizer

# What looks like a control text in the templates' sources, and one that JSON writes differently.
_LOOKS = re.compile(r"<[|/｜a-z_][^<>\s'\"{}]*>|\[/?[A-Z_]+\]")
_QUOTED = '<|"|>'


@cache
def served(name: str) -> tuple[ByteTokenizer, PromptBuilder, tuple[str, ...]]:
    controls = (*sorted(set(_LOOKS.findall(source(name)))), _QUOTED)
    tokenizer = ByteTokenizer(controls)
    return tokenizer, builder(tokenizer, source(name)), controls


def harmless(text: str) -> str:
    """The same text, with nothing in it but words and spaces."""
    return re.sub(r"\S", "x", text)


def texts(controls: tuple[str, ...]) -> st.SearchStrategy[str]:
    whole = st.sampled_from(controls)
    halves = whole.flatmap(lambda text: st.integers(1, len(text)).map(lambda cut: text[:cut]))
    tails = whole.flatmap(lambda text: st.integers(0, len(text) - 1).map(lambda cut: text[cut:]))
    other = st.sampled_from(['"', "\\", "\n", " ", "a", "é", "😸", "'", "{{ 7 }}", "|", ">"])
    return st.lists(st.one_of(whole, halves, tails, other), min_size=1, max_size=6).map("".join)


def everywhere(texts: list[str]) -> Conversation:
    """A conversation with ten texts of a caller's, one at each place that a template may print."""
    call_id, key, description, value, name, system, user, result, kwarg, argument = texts
    schema = {"type": "object", "properties": {"k": {"type": "string", "description": value, key: [key]}}}
    tool = ToolSpec("f" + name, "d" + description, schema)
    call = ToolCall("c" + call_id, "f" + name, json.dumps({"k": argument}))
    return Conversation(
        messages=(
            ChatMessage("system", "s" + system),
            ChatMessage("user", "u" + user),
            ChatMessage("assistant", None, reasoning="r" + value, tool_calls=(call,)),
            ChatMessage("tool", "t" + result, tool_call_id=call.id),
            ChatMessage("assistant", "a" + value),
            ChatMessage("user", "v" + result, name="n" + name),
        ),
        tool_use=ToolUse((tool,)),
        template=TemplateOptions(kwargs={"style": kwarg, "date_string": kwarg, "reasoning_effort": kwarg}),
    )


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_text_of_a_callers_becomes_a_control_token(name: str, data: st.DataObject) -> None:
    tokenizer, prompts, controls = served(name)
    given = data.draw(st.lists(texts(controls), min_size=10, max_size=10))
    hostile, tame = (
        [token_id for token_id in prompts.chat(everywhere(one)).token_ids if token_id >= 256]
        for one in (given, [harmless(text) for text in given])
    )
    assert hostile == tame
    # And nothing of the marks is left.
    assert not re.search(r"z[0-9a-f]{32}", tokenizer.shown(prompts.chat(everywhere(given)).token_ids))


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_an_answer_that_is_continued_ends_with_its_own_words(name: str, data: st.DataObject) -> None:
    tokenizer, prompts, controls = served(name)
    text = "a" + data.draw(texts(controls))
    conversation = Conversation(
        messages=(ChatMessage("user", "Hello"), ChatMessage("assistant", text)),
        template=TemplateOptions(is_continued=True, has_generation_prompt=False),
    )
    prompt = prompts.chat(conversation)
    plain = prompts.chat(
        replace(conversation, messages=(conversation.messages[0], ChatMessage("assistant", "a")))
    )
    assert tokenizer.shown(prompt.token_ids).endswith(text)
    assert prompt.answer_begin.endswith(text)
    assert [one for one in prompt.token_ids if one >= 256] == [one for one in plain.token_ids if one >= 256]
