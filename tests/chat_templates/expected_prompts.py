"""The prompts that the templates beside this file make of a few conversations, as files to be read.

`python -m tests.chat_templates.expected_prompts` writes them anew; read the difference before it is kept.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from inference.domain.conversation import Conversation, TemplateOptions
from inference.domain.messages import ChatMessage
from inference.domain.reasoning import ReasoningOptions
from tests import chat_templates as t
from tests.unit.prompting.byte_tokenizer import ByteTokenizer

FOLDER = Path(__file__).parent / "expected"
CONTROLS = (
    "<|im_start|>", "<|im_end|>", "<think>", "</think>", "[INST]", "[/INST]", "[TOOL_CALLS]", "<|eot_id|>",
    "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<start_of_turn>", "<end_of_turn>", "<｜User｜>",
)  # fmt: skip

WORK = t.says(
    replace(t.SYSTEM, role="developer"),
    ChatMessage("user", "Weather in Paris and Rome?"),
    t.calls(t.CALL, t.OTHER_CALL, reasoning="I need the tool."),
    t.RESULT,
    t.OTHER_RESULT,
    ChatMessage("assistant", "<think>\nOld thoughts\n</think>\n\nSunny, and rainy."),
    ChatMessage("user", "And in Oslo?"),
    t.calls(replace(t.CALL, id="call_three", arguments='{"city": "Os'), content="One moment."),
    ChatMessage("tool", None, tool_call_id="call_three"),
)
CONVERSATIONS: dict[str, Conversation] = {
    "plain": t.says(t.SYSTEM, t.HELLO),
    "thinking on": replace(t.says(t.HELLO), reasoning=ReasoningOptions(is_enabled=True, effort="high")),
    "thinking off": replace(t.says(t.HELLO), reasoning=ReasoningOptions(is_enabled=False)),
    "tools": replace(WORK, tool_use=t.TOOLS),
    "late system turn": t.says(t.SYSTEM, t.HELLO, ChatMessage("assistant", "Hi"), t.SYSTEM, t.HELLO),
    "continued": replace(
        t.says(t.HELLO, ChatMessage("assistant", "The answer is ")),
        template=TemplateOptions(is_continued=True, has_generation_prompt=False),
    ),
    "continued thinking": replace(
        t.says(t.HELLO, ChatMessage("assistant", "<think>\nWell, ")),
        template=TemplateOptions(is_continued=True, has_generation_prompt=False),
    ),
}


def prompts(name: str) -> str:
    """All of them by one template, with control tokens in braces; and where their answers begin."""
    tokenizer = ByteTokenizer(CONTROLS)
    builder = t.builder(tokenizer, t.source(name))
    parts = []
    for title, conversation in CONVERSATIONS.items():
        prompt = builder.chat(conversation)
        tools = ", tools emulated" if prompt.is_emulated else ""
        text = tokenizer.shown(prompt.token_ids)
        parts.append(f"==== {title}{tools}, answer begins behind {prompt.answer_begin!r}\n{text}\n")
    return "".join(parts)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in t.ALL:
        (FOLDER / f"{name}.txt").write_text(prompts(name))
