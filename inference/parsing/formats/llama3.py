"""Llama 3.1, 3.2 and 3.3: a bare JSON object, maybe behind `<|python_tag|>`.

    {"name": "f", "parameters": {"a": 1}}

An answer that is JSON looks the same from afar. So a call is only what an answer begins with, what begins
with a name, and only with the name of a function that was offered.
"""

from __future__ import annotations

from inference.domain.constraint import ConstraintSpec
from inference.domain.tools import ToolUse
from inference.parsing.formats.call_constraints import tagged_calls
from inference.parsing.formats.json_calls import CallShape, JsonCalls, Outcome, call_object, rest_of_arguments
from inference.parsing.formats.message_writer import MessageWriter
from inference.parsing.formats.text_source import Steps, TextSource


class Llama3Format(JsonCalls):
    name = "llama-3"
    begin = "<|python_tag|>"
    shape = CallShape(arguments=("parameters", "arguments"), must_be_known=True, is_name_first=True)

    def read(self, source: TextSource, writer: MessageWriter, *, is_thinking_open: bool) -> Steps[None]:
        if writer.tools.callable_tools:
            yield from self._read_calls(source, writer)
        if not writer.is_complete:
            yield from super().read(source, writer, is_thinking_open=is_thinking_open)

    def _read_calls(self, source: TextSource, writer: MessageWriter) -> Steps[None]:
        """At the beginning of the answer, one behind the other."""
        while True:
            source.begin_attempt("")
            yield from source.space()
            if writer.has_called:
                yield from source.expect(";")
                yield from source.space()
            yield from source.expect(self.begin)
            yield from source.space()
            outcome = yield from call_object(source, writer, self.shape)
            text = source.end_attempt()
            if outcome is Outcome.NONE:
                writer.content(text)
                return
            if outcome is Outcome.BROKEN:
                yield from rest_of_arguments(source, writer)
            if outcome is not Outcome.COMPLETE or writer.is_complete:
                return

    def constraint(self, tools: ToolUse) -> ConstraintSpec | None:
        # Its trigger is what any JSON object begins with: enforced calls only.
        if not tools.is_enforced:
            return None
        tags = [self.object_tag(tool) for tool in tools.callable_tools]
        return tagged_calls(tools, tags, trigger='{"name": ', separator="; ")


def of_template(source: str) -> Llama3Format | None:
    is_llama = "<|start_header_id|>" in source and "ipython" in source and '"parameters"' in source
    return Llama3Format() if is_llama else None
