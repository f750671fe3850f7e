"""The `messages` of a chat request: roles, names, and text in one of its several shapes.

Clients send text as a string or as a list of parts, for every role. Parts are joined by a newline,
as the servers do that most templates were tried with (llama.cpp, vLLM): without one, the last word
of a part and the first of the next would become one word. A picture or a sound (media_parts.py) is a
mark in that text. Anything else is refused by its place in the list, and never printed into the prompt.
"""

from __future__ import annotations

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.media import MediaPart
from inference.domain.messages import ChatMessage, Role
from inference.domain.tools import ToolCall
from inference.openai.fields import Fields, kind_of
from inference.openai.media_parts import MEDIA_KINDS, UNSERVED_KINDS, read_media_part
from inference.openai.message_calls import CallHistory

# A body of 32 MiB could hold a million empty messages; each costs several tokens of scaffolding,
# so that no context has room for anywhere near this many.
MAX_MESSAGES_AND_PARTS = 16_384
MAX_NAME_CHARS = 256

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
# Whose turns may hold pictures and sounds.
_SHOWING_ROLES = frozenset(("user", "tool"))


def parse_messages(fields: Fields, ignored: list[str]) -> tuple[ChatMessage, ...]:
    """The conversation, in order. Names of fields that nobody defines are added to `ignored`.

    Raises InvalidRequest with `param` like "messages[0].content[1]".
    """
    given = fields.array("messages")
    if given is None:
        raise fields.missing("messages")
    if not given:
        raise fields.fail("messages", "it must hold at least one message")
    reader = _Reader(fields, ignored)
    messages = tuple(reader.message(value, index) for index, value in enumerate(given))
    if not any((message.content or "").strip() or message.tool_calls for message in messages):
        raise fields.fail("messages", "at least one message must have text that is not blank")
    return messages


class _Reader:
    """Reads one conversation, counting what it has seen."""

    def __init__(self, fields: Fields, ignored: list[str]) -> None:
        self._fields = fields
        self._ignored = ignored
        self._num_seen = 0
        self._calls = CallHistory()

    def _count(self) -> None:
        self._num_seen += 1
        if self._num_seen > MAX_MESSAGES_AND_PARTS:
            raise self._fields.fail(
                "messages", f"it may hold at most {MAX_MESSAGES_AND_PARTS} messages and content parts"
            )

    def message(self, value: object, index: int) -> ChatMessage:
        self._count()
        if not isinstance(value, dict):
            param = f"messages[{index}]"
            raise InvalidRequest(
                f"Invalid '{param}': expected an object, but got {kind_of(value)}.", param=param
            )
        fields = Fields(value, f"messages[{index}].")
        role = fields.string("role")
        if role is None:
            raise fields.missing("role")
        if role == "function":
            raise fields.fail("role", "'function' is not supported. Use 'tool' with 'tool_call_id'")
        if role not in _ROLES:
            raise fields.fail("role", "it must be one of 'system', 'developer', 'user', 'assistant', 'tool'")
        media: list[MediaPart] = []
        message = ChatMessage(
            role=_ROLES[role],
            content=self._content(fields, role, media),
            name=fields.string("name", max_chars=MAX_NAME_CHARS) or None,
            tool_calls=self._calls_of_assistant(fields) if role == "assistant" else (),
            tool_call_id=self._calls.answered_id(fields) if role == "tool" else None,
            reasoning=self._reasoning(fields) if role == "assistant" else None,
            media=tuple(media),
        )
        for key in fields.unknown():
            label = f"messages[].{key}"
            if label not in self._ignored:
                self._ignored.append(label)
        return message

    def _calls_of_assistant(self, fields: Fields) -> tuple[ToolCall, ...]:
        calls = self._calls.calls(fields)
        for _ in calls:
            self._count()
        for key, advice in (("function_call", " Use 'tool_calls'."), ("audio", "")):
            if fields.take(key) is not None:
                param = fields.param(key)
                raise UnsupportedParameter(f"'{param}' is not supported.{advice}", param=param)
        return calls

    def _reasoning(self, fields: Fields) -> str | None:
        """What an assistant thought, under either of its names; many clients send back what they got."""
        texts = [fields.string(key) for key in ("reasoning_content", "reasoning")]
        return texts[0] or texts[1] or None

    def _content(self, fields: Fields, role: str, media: list[MediaPart]) -> str | None:
        """The text, in which marks stand for what is added to `media`."""
        value = fields.take("content")
        # An assistant's refusal stands in place of its text, beside it or as a part of it.
        refusal = fields.string("refusal") if role == "assistant" else None
        if isinstance(value, str):
            return value or refusal or value
        if value is None:
            if role in ("assistant", "tool"):
                return refusal  # null is what an answer without text, or a result of nothing, looks like
            raise fields.missing("content")
        if not isinstance(value, list):
            raise fields.wrong_kind("content", "a string or an array of content parts", value)
        return "\n".join(
            self._part(part, f"{fields.param('content')}[{index}]", role, media)
            for index, part in enumerate(value)
        )

    def _part(self, part: object, param: str, role: str, media: list[MediaPart]) -> str:
        self._count()
        if not isinstance(part, dict):
            raise InvalidRequest(
                f"Invalid '{param}': expected an object, but got {kind_of(part)}.", param=param
            )
        kind = part.get("type")
        if kind == "text":
            text = part.get("text")
        elif kind == "refusal" and role == "assistant":
            text = part.get("refusal")
        elif isinstance(kind, str) and kind in MEDIA_KINDS and role in _SHOWING_ROLES:
            media.append(read_media_part(part, param))
            text = media[-1].mark
        elif isinstance(kind, str) and kind in (MEDIA_KINDS.keys() | UNSERVED_KINDS):
            raise InvalidRequest(
                f"Invalid '{param}': parts of type '{kind}' are not supported here.", param=param
            )
        else:
            raise InvalidRequest(f"Invalid '{param}': it must be a part of type 'text'.", param=param)
        if not isinstance(text, str):
            raise InvalidRequest(f"Invalid '{param}': its text must be a string.", param=param)
        return text
