from __future__ import annotations

import pytest

from inference.domain.messages import ChatMessage
from inference.prompting.thinking_history import split_thinking, thinking_markers
from tests.chat_templates import DEEPSEEK_R1, GEMMA2, QWEN3, source

THINK = (("<think>", "</think>"),)


def test_a_templates_markers_are_found_in_its_source() -> None:
    assert thinking_markers([source(QWEN3)]) == THINK
    assert thinking_markers([source(DEEPSEEK_R1)]) == THINK
    assert thinking_markers([source(GEMMA2)]) == ()
    assert thinking_markers(["a [/THINK]", "</seed:think>"]) == (
        ("[THINK]", "[/THINK]"),
        ("<seed:think>", "</seed:think>"),
    )


@pytest.mark.parametrize(
    ("content", "reasoning", "said"),
    [
        ("<think>\nHm\n</think>\n\nYes", "Hm", "Yes"),
        ("<think>a</think>b", "a", "b"),
        ("\n <think>a</think>b", "a", "b"),
        ("<think>\n\n</think>\n\nYes", None, "Yes"),
        ("<think></think>", None, ""),
        ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
        ("<think>a <think>b</think> c</think>d", "a <think>b", " c</think>d"),
    ],
)
def test_thinking_at_the_beginning_is_told_apart(content: str, reasoning: str | None, said: str) -> None:
    split = split_thinking(ChatMessage("assistant", content), THINK)
    assert (split.reasoning, split.content) == (reasoning, said)


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage("assistant", "Use <think>a</think> like so"),
        ChatMessage("assistant", "<think>never closed"),
        ChatMessage("assistant", "</think>Yes"),
        ChatMessage("assistant", "[THINK]a[/THINK]b"),
        ChatMessage("assistant", None),
        ChatMessage("assistant", ""),
        ChatMessage("assistant", "<think>a</think>b", reasoning="told apart before"),
        ChatMessage("user", "<think>a</think>b"),
        ChatMessage("tool", "<think>a</think>b", tool_call_id="c"),
    ],
)
def test_all_else_is_text(message: ChatMessage) -> None:
    assert split_thinking(message, THINK) == message


def test_an_answer_that_goes_on_may_do_so_inside_its_thinking() -> None:
    begun = split_thinking(ChatMessage("assistant", "<think>\nWell, "), THINK, is_continued=True)
    assert (begun.reasoning, begun.content) == ("Well, ", None)
    closed = split_thinking(ChatMessage("assistant", "<think>a</think>b"), THINK, is_continued=True)
    assert (closed.reasoning, closed.content) == ("a", "b")
