"""The `messages` of a chat request: roles, names, and text in one of its several shapes.

Clients send text as a string or as a list of parts, for every role. Parts are joined by a newline,
as the servers do that most templates were tried with (llama.cpp, vLLM): without one, the last word
of a part and the first of the next would become one word. What is no text is refused by its place
in the list, and never printed into the prompt.
"""

from __future__ import annotations

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.messages import ChatMessage, Role
from inference.openai.fields import Fields, kind_of

# A body of 32 MiB could hold a million empty messages; each costs several tokens of scaffolding,
# so that no context has room for anywhere near this many.
MAX_MESSAGES_AND_PARTS = 16_384
MAX_NAME_CHARS = 256

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
}
_MEDIA_PARTS = frozenset(
    (
        "image_url",
        "input_image",
        "image",
        "input_audio",
        "audio",
        "audio_url",
        "video_url",
        "file",
        "input_file",
    )
)


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
    if not any((message.content or "").strip() for message in messages):
        raise fields.fail("messages", "at least one message must have text that is not blank")
    return messages


class _Reader:
    """Reads one conversation, counting what it has seen."""

    def __init__(self, fields: Fields, ignored: list[str]) -> None:
        self._fields = fields
        self._ignored = ignored
        self._num_seen = 0

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
        if role == "tool":
            # No assistant message of ours can hold tool calls yet (see below), so that every result
            # of one is an orphan; OpenAI refuses those, and templates fail on them.
            raise fields.fail(
                "role", "a message with role 'tool' must answer a preceding message with 'tool_calls'"
            )
        if role not in _ROLES:
            raise fields.fail("role", "it must be one of 'system', 'developer', 'user', 'assistant'")
        name = fields.string("name", max_chars=MAX_NAME_CHARS)
        content = self._content(fields, role)
        if role == "assistant":
            self._refuse_calls(fields)
        for key in fields.unknown():
            label = f"messages[].{key}"
            if label not in self._ignored:
                self._ignored.append(label)
        return ChatMessage(role=_ROLES[role], content=content, name=name or None)

    def _refuse_calls(self, fields: Fields) -> None:
        fields.string("refusal")
        for key in ("tool_calls", "function_call", "audio"):
            if fields.take(key) not in (None, []):
                param = fields.param(key)
                raise UnsupportedParameter(f"'{param}' is not supported.", param=param)

    def _content(self, fields: Fields, role: str) -> str:
        value = fields.take("content")
        if isinstance(value, str):
            return value
        if value is None:
            if role == "assistant":
                return ""  # null is what an answer without text looks like in a history
            raise fields.missing("content")
        if not isinstance(value, list):
            raise fields.wrong_kind("content", "a string or an array of content parts", value)
        return "\n".join(
            self._part(part, f"{fields.param('content')}[{index}]", role) for index, part in enumerate(value)
        )

    def _part(self, part: object, param: str, role: str) -> str:
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
        elif isinstance(kind, str) and kind in _MEDIA_PARTS:
            raise InvalidRequest(
                f"Invalid '{param}': this model takes text only, not parts of type '{kind}'.", param=param
            )
        else:
            raise InvalidRequest(f"Invalid '{param}': it must be a part of type 'text'.", param=param)
        if not isinstance(text, str):
            raise InvalidRequest(f"Invalid '{param}': its text must be a string.", param=param)
        return text
