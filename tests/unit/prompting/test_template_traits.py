from __future__ import annotations

import pytest

from inference.prompting.chat_template import CHATML, ChatTemplate
from inference.prompting.template_traits import TemplateTraits, template_traits
from inference.prompting.written_calls import notation_of
from tests.chat_templates import (
    DEEPSEEK_R1,
    GEMMA2,
    GPT_OSS,
    GRANITE33,
    HERMES,
    LFM2,
    LLAMA31,
    NEMO,
    QWEN3,
    QWEN35,
    source,
)

THINK = (("<think>", "</think>"),)


def traits(template: str) -> TemplateTraits:
    return template_traits(ChatTemplate(template, max_chars=1_000_000))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (QWEN3, TemplateTraits(has_tools=True, reasoning_key="reasoning_content", thinking_markers=THINK)),
        (
            QWEN35,
            TemplateTraits(
                has_late_system=False,
                has_tools=True,
                wants_object_arguments=True,
                reasoning_key="reasoning_content",
                thinking_markers=THINK,
            ),
        ),
        (
            NEMO,
            TemplateTraits(
                has_late_system=False, has_tools=True, wants_object_arguments=True, wants_short_ids=True
            ),
        ),
        (LLAMA31, TemplateTraits(has_tools=True, wants_object_arguments=True, has_parallel_calls=False)),
        (
            GPT_OSS,
            TemplateTraits(
                has_late_system=False,
                has_tools=True,
                wants_object_arguments=True,
                has_parallel_calls=False,
                reasoning_key="thinking",
            ),
        ),
        (
            DEEPSEEK_R1,
            TemplateTraits(
                has_late_system=False,
                has_tools=True,
                wants_object_arguments=True,
                has_calls_beside_text=False,
                thinking_markers=THINK,
            ),
        ),
        (HERMES, TemplateTraits(wants_tool_list=True, has_tools=True)),
        (GEMMA2, TemplateTraits(has_system_role=False, has_late_system=False)),
        (LFM2, TemplateTraits(has_tools=True, call_notation=notation_of("<|tool_list_start|>"))),
        (
            GRANITE33,
            TemplateTraits(
                has_tools=True, call_notation=notation_of("<|tool_call|>"), thinking_markers=THINK
            ),
        ),
    ],
)
def test_real_templates(name: str, expected: TemplateTraits) -> None:
    assert traits(source(name)) == expected


def test_chatml_takes_all_turns_and_no_tools() -> None:
    assert traits(CHATML) == TemplateTraits()


def test_a_template_that_reads_parts_alone() -> None:
    parts = (
        "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{{ p.text }}{% endfor %};{% endfor %}"
    )
    assert traits(parts).wants_typed_content
    either = (
        "{% for m in messages %}{{ m.content if m.content is string else m.content[0].text }}{% endfor %}"
    )
    assert not traits(either).wants_typed_content


def test_calls_that_are_written_as_python_are_not_written_well() -> None:
    template = (
        "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
        "{% for m in messages %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments }}{% endfor %}"
        "{% endfor %}"
    )
    assert not traits(template).wants_object_arguments
    assert not traits(
        template.replace("{{ c.function.arguments }}", "{{ c.function.arguments.x }}")
    ).has_tools


def test_tools_that_are_printed_as_python_say_nothing_of_calls() -> None:
    template = (
        "{{ tools }}{% for m in messages %}{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{% endfor %}"
    )
    assert traits(template).has_tools
    assert traits(template).wants_object_arguments


def test_a_template_that_writes_nothing_is_still_one() -> None:
    assert not traits("").has_tools
    assert not traits("{{ raise_exception('no') }}").has_tools
