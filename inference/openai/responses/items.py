"""`input` of a response: items in, turns of a conversation out.

An item is a message, a call, a call's output, or what the model thought. What an assistant said at once
comes as several of them, which are put together again: one turn with its thinking, its text and its
calls. Everything that was in an answer may be sent back as it is, ids and statuses included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.media import MediaPart
from inference.domain.messages import ChatMessage, Role
from inference.domain.tools import ToolCall
from inference.openai.fields import Fields, kind_of
from inference.openai.media_parts import MEDIA_KINDS, UNSERVED_KINDS, read_media_part

# See inference/openai/message_parts.py.
MAX_ITEMS_AND_PARTS = 16_384
MAX_ID_CHARS = 256
MAX_TOOL_NAME_CHARS = 256
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
}
_TEXT_PARTS = ("input_text", "output_text", "text")
Items = Sequence[object]


def input_items(value: object) -> Items | None:
    """`input` as a list: a text is one message of the user. None for what is neither."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value if isinstance(value, list) else None


class ItemReader:
    """Reads items in order; `turns` gives what they add up to. `may_be_continued`: what comes before these
    items is not known yet, so that outputs may answer calls in there."""

    def __init__(self, *, may_be_continued: bool = False) -> None:
        self._may_be_continued = may_be_continued
        self._turns: list[ChatMessage] = []
        self._answer: _Answer | None = None
        self._call_names: dict[str, str] = {}
        self._num_seen = 0

    def turns(self) -> tuple[ChatMessage, ...]:
        self._end_answer()
        return tuple(self._turns)

    def read(self, items: Items, path: str = "input") -> None:
        """Raises InvalidRequest or UnsupportedParameter with `param` like "input[0].content[1]"."""
        for index, value in enumerate(items):
            self._count()
            item = Fields(_object(value, f"{path}[{index}]"), f"{path}[{index}].")
            kind = item.string("type")
            match kind:
                case None | "message":
                    self._message(item)
                case "function_call":
                    self._function_call(item)
                case "function_call_output":
                    self._function_call_output(item)
                case "reasoning":
                    self._reasoning(item)
                case _:
                    shown = "".join(c if c.isalnum() or c == "_" else "?" for c in kind[:64])
                    raise UnsupportedParameter(
                        f"'{item.param('type')}': items of type '{shown}' are not supported.",
                        param=item.param("type"),
                    )

    def _count(self) -> None:
        self._num_seen += 1
        if self._num_seen > MAX_ITEMS_AND_PARTS:
            raise InvalidRequest(
                f"Invalid 'input': it may hold at most {MAX_ITEMS_AND_PARTS} items and content parts.",
                param="input",
            )

    def _message(self, item: Fields) -> None:
        role = item.choice("role", tuple(_ROLES))
        if role is None:
            raise item.missing("role")
        media: list[MediaPart] = []
        text = self._text(item, "content", media if role == "user" else None)
        if role == "assistant":
            self._open_answer().texts.append(text)
            return
        self._end_answer()
        self._turns.append(ChatMessage(_ROLES[role], text, media=tuple(media)))

    def _function_call(self, item: Fields) -> None:
        call_id = _required(item, "call_id", MAX_ID_CHARS)
        name = _required(item, "name", MAX_TOOL_NAME_CHARS)
        arguments = item.string("arguments")
        if arguments is None:
            raise item.missing("arguments")
        self._call_names[call_id] = name
        self._open_answer().calls.append(ToolCall(call_id, name, arguments))

    def _function_call_output(self, item: Fields) -> None:
        call_id = _required(item, "call_id", MAX_ID_CHARS)
        if call_id not in self._call_names and not self._may_be_continued:
            raise item.fail("call_id", "there is no 'function_call' of this id before it")
        media: list[MediaPart] = []
        text = self._text(item, "output", media)
        self._end_answer()
        name = self._call_names.get(call_id)
        self._turns.append(ChatMessage("tool", text, name=name, tool_call_id=call_id, media=tuple(media)))

    def _reasoning(self, item: Fields) -> None:
        """The thinking itself where it is there, or else what was told of it. Sealed thinking is skipped:
        it is another service's."""
        thoughts = self._part_texts(item, "content", ("reasoning_text", "text"))
        summary = self._part_texts(item, "summary", ("summary_text",))
        text = "\n".join(thoughts or summary)
        if text:
            self._open_answer().thoughts.append(text)

    def _open_answer(self) -> _Answer:
        if self._answer is None:
            self._answer = _Answer()
        return self._answer

    def _end_answer(self) -> None:
        if self._answer is not None:
            self._turns.append(self._answer.turn())
            self._answer = None

    def _text(self, item: Fields, name: str, media: list[MediaPart] | None) -> str:
        """Text, in which marks stand for what is added to `media`; None: there may be none."""
        value = item.take(name)
        if value is None:
            raise item.missing(name)
        if isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise item.wrong_kind(name, "a string or an array of content parts", value)
        return "\n".join(self._part_texts(item, name, _TEXT_PARTS, media))

    def _part_texts(
        self, item: Fields, name: str, kinds: tuple[str, ...], media: list[MediaPart] | None = None
    ) -> list[str]:
        path = item.param(name)
        texts = []
        for index, value in enumerate(item.array(name) or ()):
            self._count()
            part = Fields(_object(value, f"{path}[{index}]"), f"{path}[{index}].")
            kind = part.string("type")
            if kind == "refusal" and kinds is _TEXT_PARTS:
                text = part.string("refusal")
            elif kind in kinds:
                text = part.string("text")
            elif kind in MEDIA_KINDS and media is not None:
                media.append(read_media_part(_object(value, path), f"{path}[{index}]"))
                text = media[-1].mark
            elif kind in MEDIA_KINDS or kind in UNSERVED_KINDS:
                raise InvalidRequest(
                    f"Invalid '{path}[{index}]': parts of type '{kind}' are not supported here.",
                    param=f"{path}[{index}]",
                )
            else:
                raise part.fail("type", "it must be one of " + ", ".join(f"'{one}'" for one in kinds))
            if text is None:
                raise part.missing("text")
            texts.append(text)
        return texts


@dataclass(slots=True)
class _Answer:
    """An assistant's turn as its items come."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def turn(self) -> ChatMessage:
        return ChatMessage(
            "assistant",
            "\n".join(self.texts) if self.texts else None,
            tool_calls=tuple(self.calls),
            reasoning="\n".join(self.thoughts) or None,
        )


def _object(value: object, param: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid '{param}': expected an object, but got {kind_of(value)}.", param=param)
    return value


def _required(item: Fields, name: str, max_chars: int) -> str:
    text = item.string(name, max_chars=max_chars)
    if not text:
        raise item.missing(name)
    return text
