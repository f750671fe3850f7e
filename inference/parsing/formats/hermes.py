"""`<tool_call>` around a JSON object: Hermes 2 and 3, Qwen 2.5 and 3, QwQ, Granite 4, MiMo, Reka, Bielik.

    <tool_call>
    {"name": "f", "arguments": {"a": 1}}
    </tool_call>

again for each call.
"""

from __future__ import annotations

from inference.parsing.formats.json_calls import JsonCalls
from inference.parsing.formats.thinking_marks import thinking_of


class HermesFormat(JsonCalls):
    name = "hermes"
    begin = "<tool_call>"
    end = "</tool_call>"
    space_begin = space_end = "\n"


def of_template(source: str) -> HermesFormat | None:
    return HermesFormat(thinking_of(source)) if "<tool_call>" in source else None
