from __future__ import annotations

from pathlib import Path

import pytest

from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningFormat, ReasoningOptions
from inference.openai.chat_defaults import ChatDefaults
from inference.prompting.prompt import PromptPolicy
from skippy_site.env import EnvironmentProblem, read_environment


def test_without_settings_chats_are_as_requests_say() -> None:
    defaults = read_environment({}).chat_defaults
    assert defaults == ChatDefaults(reasoning=ReasoningOptions(format=ReasoningFormat.AUTO))
    assert read_environment({}).prompt_policy == PromptPolicy()


def test_all_of_them() -> None:
    environment = read_environment(
        {
            "SKIPPY_CHAT_SYSTEM_PROMPT": "Be kind.",
            "SKIPPY_CHAT_PREFILL": "Well,",
            "SKIPPY_CHAT_TEMPLATE_KWARGS": '{"style": "dry", "enable_thinking": false}',
            "SKIPPY_CHAT_TEMPLATE_LOCKED": "style, enable_thinking",
            "SKIPPY_CHAT_TEMPLATE_REQUESTS": "yes",
            "SKIPPY_SKIP_CHAT_PARSING": "1",
            "SKIPPY_REASONING": "off",
            "SKIPPY_REASONING_FORMAT": "hidden",
            "SKIPPY_REASONING_EFFORT": "low",
            "SKIPPY_REASONING_BUDGET": "512",
            "SKIPPY_FORCE_TOOL_EMULATION": "true",
        }
    )
    assert environment.chat_defaults == ChatDefaults(
        system_prompt="Be kind.",
        prefill=ChatMessage("assistant", "Well,"),
        template_kwargs={"style": "dry", "enable_thinking": False},
        locked_kwargs=frozenset({"style", "enable_thinking"}),
        reasoning=ReasoningOptions(
            format=ReasoningFormat.HIDDEN, is_enabled=False, effort="low", max_tokens=512
        ),
        wants_raw_text=True,
    )
    assert environment.prompt_policy == PromptPolicy(
        allows_request_templates=True, forces_tool_emulation=True
    )


def test_a_template_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ messages }}é")
    assert read_environment({"SKIPPY_CHAT_TEMPLATE_FILE": str(file)}).prompt_policy == PromptPolicy(
        template_source="{{ messages }}é"
    )
    file.write_bytes(b"\xff")
    for path in (file, tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(EnvironmentProblem, match="SKIPPY_CHAT_TEMPLATE_FILE"):
            read_environment({"SKIPPY_CHAT_TEMPLATE_FILE": str(path)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKIPPY_CHAT_TEMPLATE_KWARGS", "style=dry"),
        ("SKIPPY_CHAT_TEMPLATE_KWARGS", "[1]"),
        ("SKIPPY_CHAT_TEMPLATE_KWARGS", "[" * 100_000),
        ("SKIPPY_CHAT_TEMPLATE_KWARGS", '{"messages": []}'),
        ("SKIPPY_CHAT_TEMPLATE_LOCKED", "style,tools"),
        ("SKIPPY_REASONING", "maybe"),
        ("SKIPPY_REASONING_FORMAT", "xml"),
        ("SKIPPY_REASONING_EFFORT", "extreme"),
        ("SKIPPY_REASONING_BUDGET", "-2"),
        ("SKIPPY_CHAT_TEMPLATE_REQUESTS", "perhaps"),
    ],
)
def test_a_wrong_one_is_one_line_that_names_it(name: str, value: str) -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        read_environment({name: value})
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)
