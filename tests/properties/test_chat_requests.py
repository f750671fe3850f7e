"""Whatever is in the body of a chat request: a prompt, or a 400 that names a field."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.errors import InvalidRequest
from inference.openai.chat_defaults import ChatDefaults
from inference.openai.validation import parse_chat_request
from inference.prompting.prompt import PromptBuilder, PromptPolicy
from tests.chat_templates import GEMMA2, GPT_OSS, LFM2, NEMO, QWEN3, builder, source
from tests.unit.prompting.byte_tokenizer import CONTROLS, ByteTokenizer

WORDS = st.one_of(
    st.sampled_from(
        ["", " ", "f", "get_weather", "c1", "function", "auto", "none", "assistant", "object", "text"]
    ),
    st.sampled_from(
        ["\0", "😸", "a\n", "x" * 70, "{}", '{"a": "\\ud800"}', "[" * 200, "<think>\n", *CONTROLS]
    ),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2**40), st.floats(allow_nan=False, allow_infinity=False), WORDS
)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(WORDS, below, max_size=3)),
    max_leaves=8,
)


def objects(needed: dict[str, Any] | None = None, /, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with these fields, those of `needed` always; now and then one of them is anything."""
    whole = st.fixed_dictionaries(needed or {}, optional=fields)
    names = st.sampled_from([*(needed or {}), *fields])
    odd = st.tuples(whole, names, VALUES).map(lambda drawn: {**drawn[0], drawn[1]: drawn[2]})
    return st.integers(0, 19).flatmap(lambda roll: odd if roll == 19 else whole)


FUNCTION = objects(
    {"name": st.sampled_from(["f", "g", "get_weather"])},
    description=WORDS,
    parameters=objects(type=st.just("object"), properties=st.dictionaries(WORDS, VALUES, max_size=2)),
    strict=st.booleans(),
)
TOOLS = st.lists(objects({"type": st.just("function"), "function": FUNCTION}), max_size=2)
CALLS = st.lists(
    objects(
        {
            "id": st.sampled_from(["c1", "c2"]),
            "function": objects({"name": st.sampled_from(["f", "😸", "<s>"])}, arguments=WORDS),
        }
    ),
    max_size=2,
)
PARTS = st.lists(objects({"type": st.just("text"), "text": WORDS}), max_size=2)
TEXT = WORDS | PARTS
MESSAGES = st.lists(
    st.one_of(
        objects({"role": st.sampled_from(["system", "developer", "user"]), "content": TEXT}, name=WORDS),
        objects({"role": st.just("assistant")}, content=TEXT, tool_calls=CALLS, reasoning_content=WORDS),
        objects({"role": st.just("tool"), "tool_call_id": st.sampled_from(["c1", "c2"])}, content=TEXT),
    ),
    max_size=5,
).map(lambda turns: [{"role": "user", "content": "Hello"}, *turns])
CHOICES = st.one_of(
    st.sampled_from(["auto", "none", "required", "f"]),
    objects(type=st.sampled_from(["function", "allowed_tools"]), function=FUNCTION, mode=WORDS, tools=TOOLS),
)
BODIES = objects(
    messages=MESSAGES,
    tools=TOOLS,
    tool_choice=CHOICES,
    parallel_tool_calls=st.booleans(),
    chat_template_kwargs=st.dictionaries(
        st.sampled_from(["enable_thinking", "style", "tools"]), VALUES, max_size=2
    ),
    reasoning=objects(
        enabled=st.booleans(), effort=st.sampled_from(["none", "high"]), max_tokens=st.integers(-1, 9)
    ),
    reasoning_effort=st.sampled_from(["none", "low"]),
    enable_thinking=st.booleans(),
    thinking_budget=st.integers(-1, 9),
    reasoning_format=st.sampled_from(["auto", "hidden"]),
    prefill_assistant=objects(role=st.just("assistant"), content=WORDS, reasoning_content=WORDS),
    continue_final_message=st.booleans(),
    add_generation_prompt=st.booleans(),
    documents=st.lists(objects(text=WORDS), max_size=2),
    chat_template=st.sampled_from(["default", "default", "{% if %}", "{{ messages[0].content }}"]),
    skip_chat_parsing=st.booleans(),
)


@cache
def prompts(name: str) -> PromptBuilder:
    return builder(ByteTokenizer(), source(name), policy=PromptPolicy(allows_request_templates=True))


@pytest.mark.parametrize("name", [QWEN3, GEMMA2, GPT_OSS, NEMO, LFM2])
@settings(max_examples=100, deadline=None)
@given(body=BODIES)
def test_it_becomes_a_prompt_or_a_400_that_names_a_field(name: str, body: dict[str, Any]) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], **body, "model": "m"}
    try:
        request = ChatDefaults(system_prompt="Be kind.").fill(
            parse_chat_request(json.dumps(body).encode(), strict_fields=False)
        )
        prompt = prompts(name).chat(request.conversation)
    except InvalidRequest as error:
        # A body that cannot be read at all has no field.
        assert error.param is None or error.param.partition(".")[0].partition("[")[0] in body
        assert "z" * 33 not in error.message
        error.message.encode()
        return
    assert prompt.token_ids
    assert not prompt.is_emulated or request.tool_use.callable_tools
