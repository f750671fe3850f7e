"""Calls and their results in a conversation: `tool_calls` of assistants, `tool_call_id` of tools.

Histories come from many hands: clients that send arguments as an object, that lost a call's
result, or that answer calls out of order. All of that is still a conversation. A result that answers no
call is none: templates fail on it, or print it where the model cannot tell what it is about.
"""

from __future__ import annotations

import json

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.tools import ToolCall
from inference.openai.fields import Fields, kind_of

MAX_CALLS_IN_MESSAGE = 128
MAX_CALL_ID_CHARS = 256
# Names in a history may be those of other services; they only have to be printable in a prompt.
MAX_CALLED_NAME_CHARS = 256


class CallHistory:
    """The calls of one conversation, read in order."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def calls(self, fields: Fields) -> tuple[ToolCall, ...]:
        """`tool_calls` of an assistant's message; null and [] are none."""
        given = fields.array("tool_calls")
        if not given:
            return ()
        path = fields.param("tool_calls")
        if len(given) > MAX_CALLS_IN_MESSAGE:
            raise fields.fail("tool_calls", f"it may hold at most {MAX_CALLS_IN_MESSAGE} calls")
        calls = tuple(_call(value, f"{path}[{index}]") for index, value in enumerate(given))
        self._ids.update(call.id for call in calls)
        return calls

    def answered_id(self, fields: Fields) -> str:
        """`tool_call_id` of a tool's message: of a call that was made before."""
        call_id = fields.string("tool_call_id", max_chars=MAX_CALL_ID_CHARS)
        if call_id is None:
            raise fields.missing("tool_call_id")
        if call_id not in self._ids:
            raise fields.fail(
                "tool_call_id",
                "a message with role 'tool' must answer a call in 'tool_calls' of a preceding message",
            )
        return call_id


def _call(value: object, path: str) -> ToolCall:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid '{path}': expected an object, but got {kind_of(value)}.", param=path)
    call = Fields(value, f"{path}.")
    call_id = call.string("id", max_chars=MAX_CALL_ID_CHARS)
    if not call_id:
        raise call.missing("id")
    if call.string("type") not in ("function", None):
        param = call.param("type")
        raise UnsupportedParameter(f"'{param}' must be 'function'.", param=param)
    given = call.mapping("function")
    if given is None:
        raise call.missing("function")
    function = Fields(given, f"{path}.function.")
    name = function.string("name", max_chars=MAX_CALLED_NAME_CHARS)
    if not name:
        raise function.missing("name")
    return ToolCall(id=call_id, name=name, arguments=_arguments(function))


def _arguments(function: Fields) -> str:
    """As text, whatever is in it: it may be what a model wrote that was cut off."""
    value = function.take("arguments")
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    raise function.wrong_kind("arguments", "a string", value)
