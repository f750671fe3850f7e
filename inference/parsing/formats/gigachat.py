"""GigaChat 3 and 3.1: one call, as a JSON object that ends the answer.

3      <|message_sep|>\\n\\nfunction call<|role_sep|>\\n{"name": "f", "arguments": {…}}
3.1    <|function_call|>{"name": "f", "arguments": {…}}
"""

from __future__ import annotations

from dataclasses import replace

from inference.domain.constraint import ConstraintSpec
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import tagged_calls
from inference.parsing.formats.json_calls import JsonCalls
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource


class GigaChatFormat(JsonCalls):
    def __init__(self, *, is_first: bool) -> None:
        self.name = "gigachat-3" if is_first else "gigachat-3.1"
        self.begin = "<|message_sep|>" if is_first else "<|function_call|>"
        self._opening = "\n\nfunction call<|role_sep|>\n" if is_first else ""
        super().__init__()
        self.preserved_texts = ("<|message_sep|>", "<|role_sep|>", "<|function_call|>")

    def call(self, source: TextSource, writer: MessageWriter, marker: str) -> Steps[bool]:
        if self._opening and (yield from source.expect(self._opening)) is None:
            return False
        return (yield from super().call(source, writer, marker))

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        self_begin = self.begin + self._opening
        tags = [self.object_tag(tool, begin=self_begin) for tool in tools.callable_tools]
        return tagged_calls(replace(tools, is_parallel=False), tags, trigger=self.begin)


def of_template(source: str) -> GigaChatFormat | None:
    if "<|role_sep|>" not in source or "<|message_sep|>" not in source:
        return None
    return GigaChatFormat(is_first="<|function_call|>" not in source)
