from __future__ import annotations

from dataclasses import replace

from inference.domain.tools import ToolUse
from inference.prompting.text_size import text_bytes
from inference.services.prompt_size import TEMPLATE_BYTES, conversation_bytes
from tests.chat_templates import CALL, HELLO, WEATHER, calls, says


def test_texts_count_by_their_bytes() -> None:
    assert text_bytes("abc") == 3
    assert text_bytes("é😸") == 6
    assert conversation_bytes(says(HELLO)) == len("Hello") + TEMPLATE_BYTES
    assert conversation_bytes(says(replace(HELLO, content=None))) == TEMPLATE_BYTES


def test_calls_thinking_and_tools_count_too() -> None:
    called = conversation_bytes(says(calls(CALL, reasoning="Hm")))
    assert called == len("get_weather" + CALL.arguments + "Hm") + 2 * TEMPLATE_BYTES
    large = replace(WEATHER, parameters={"x": "é" * 100_000, "n": 10**40})
    offered = conversation_bytes(replace(says(HELLO), tool_use=ToolUse((large,))))
    assert offered > 200_000
