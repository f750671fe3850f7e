"""`system` and `messages` of Anthropic's wire, as turns of a conversation.

Its turns are the user's and the assistant's alone, made of blocks: a call is a block of the assistant's
turn, its result one of the user's. Here they become what chat templates know: turns of tools between the
others, calls beside the text. Blocks of text are joined by a line break, as parts of OpenAI's
messages are; turns of one role that follow each other are one turn, as Anthropic's documentation has it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.media import MediaPart
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolCall
from inference.openai.fields import Fields, kind_of
from inference.openai.media_parts import read_media_part

# See inference/openai/message_parts.py.
MAX_MESSAGES_AND_BLOCKS = 16_384
MAX_ID_CHARS = 256
MAX_TOOL_NAME_CHARS = 256
# Claude Code's first block of the system prompt: another one each time, about nothing that a model could use.
# With it in front, no prompt would begin like the one before.
_BILLING = "x-anthropic-billing-header:"


def read_system(fields: Fields) -> tuple[ChatMessage, ...]:
    """`system`: a text, or blocks of text; none without text."""
    value = fields.take("system")
    if value is None:
        return ()
    if isinstance(value, str):
        text = value
    else:
        reader = _Reader()
        blocks = fields.array("system") or []
        texts = [reader.text_block(block, f"system[{index}]") for index, block in enumerate(blocks)]
        text = "\n".join(one for one in texts if not one.startswith(_BILLING))
    return (ChatMessage("system", text),) if text.strip() else ()


def read_messages(fields: Fields) -> tuple[ChatMessage, ...]:
    """`messages`, at least one of them, and with text or a call in one of them.

    Raises InvalidRequest with `param` like "messages[0].content[1]".
    """
    given = fields.array("messages")
    if given is None:
        raise fields.missing("messages")
    if not given:
        raise fields.fail("messages", "it must hold at least one message")
    reader = _Reader()
    turns: list[ChatMessage] = []
    for index, value in enumerate(given):
        for turn in reader.turns(value, index):
            if turns and _is_one_turn(turns[-1], turn):
                turns[-1] = _joined(turns[-1], turn)
            else:
                turns.append(turn)
    if len(turns) > 1 and turns[-1] in (ChatMessage("assistant", ""), ChatMessage("assistant", None)):
        turns.pop()  # an answer that is continued from nothing
    if not any((turn.content or "").strip() or turn.tool_calls for turn in turns):
        raise fields.fail("messages", "at least one message must have text that is not blank")
    if turns[-1].tool_calls:
        raise fields.fail(
            "messages", "the calls of its last message must be answered by 'tool_result' blocks"
        )
    return tuple(turns)


class _Reader:
    """Reads one conversation, counting what it has seen and knowing the calls that were made."""

    def __init__(self) -> None:
        self._num_seen = 0
        self._names: dict[str, str] = {}

    def _count(self) -> None:
        self._num_seen += 1
        if self._num_seen > MAX_MESSAGES_AND_BLOCKS:
            raise InvalidRequest(
                f"Invalid 'messages': it may hold at most {MAX_MESSAGES_AND_BLOCKS} messages and blocks.",
                param="messages",
            )

    def turns(self, value: object, index: int) -> list[ChatMessage]:
        """The turns that one message stands for: a user's with results of tools has several."""
        self._count()
        fields = Fields(_object(value, f"messages[{index}]"), f"messages[{index}].")
        role = fields.choice("role", ("user", "assistant", "system"))
        if role is None:
            raise fields.missing("role")
        content = fields.take("content")
        if content is None:
            raise fields.missing("content")
        path = fields.param("content")
        blocks: Sequence[object]
        if isinstance(content, str):
            blocks = [{"type": "text", "text": content}]
        elif isinstance(content, list):
            blocks = content
        else:
            raise fields.wrong_kind("content", "a string or an array of blocks", content)
        if role == "assistant":
            return [self._assistant(blocks, path)]
        if role == "system":
            texts = [self.text_block(block, f"{path}[{number}]") for number, block in enumerate(blocks)]
            return [ChatMessage("system", "\n".join(texts))]
        return self._user(blocks, path)

    def _user(self, blocks: Sequence[object], path: str) -> list[ChatMessage]:
        turns: list[ChatMessage] = []
        texts: list[str] = []
        media: list[MediaPart] = []
        for index, value in enumerate(blocks):
            block_path = f"{path}[{index}]"
            if isinstance(value, dict) and value.get("type") == "tool_result":
                self._count()
                if texts:
                    turns.append(ChatMessage("user", "\n".join(texts), media=tuple(media)))
                    texts, media = [], []
                turns.append(self._tool_result(Fields(value, f"{block_path}.")))
            else:
                texts.append(self._shown_block(value, block_path, media))
        if texts or not turns:
            turns.append(ChatMessage("user", "\n".join(texts), media=tuple(media)))
        return turns

    def _shown_block(self, value: object, path: str, media: list[MediaPart]) -> str:
        """A block of text, or a picture: then its mark, and it is added to `media`."""
        if isinstance(value, dict) and value.get("type") == "image":
            self._count()
            media.append(read_media_part(value, path))
            return media[-1].mark
        return self.text_block(value, path)

    def _assistant(self, blocks: Sequence[object], path: str) -> ChatMessage:
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        for index, value in enumerate(blocks):
            block = Fields(_object(value, f"{path}[{index}]"), f"{path}[{index}].")
            match block.take("type"):
                case "tool_use":
                    self._count()
                    calls.append(self._tool_use(block))
                case "thinking":
                    self._count()
                    thoughts.append(_required_text(block, "thinking"))
                case "redacted_thinking":
                    self._count()  # sealed by another service: there is nothing to be read in it
                case _:
                    texts.append(self.text_block(value, f"{path}[{index}]"))
        return ChatMessage(
            "assistant",
            "\n".join(texts) if texts else None,
            tool_calls=tuple(calls),
            reasoning="\n".join(thoughts) or None,
        )

    def _tool_use(self, block: Fields) -> ToolCall:
        call_id = _required_text(block, "id", max_chars=MAX_ID_CHARS)
        name = _required_text(block, "name", max_chars=MAX_TOOL_NAME_CHARS)
        given = block.mapping("input")
        if given is None:
            raise block.missing("input")
        self._names[call_id] = name
        return ToolCall(call_id, name, json.dumps(given, ensure_ascii=False))

    def _tool_result(self, block: Fields) -> ChatMessage:
        call_id = _required_text(block, "tool_use_id", max_chars=MAX_ID_CHARS)
        if call_id not in self._names:
            raise block.fail("tool_use_id", "it must be the id of a 'tool_use' block of a preceding message")
        value = block.take("content")
        media: list[MediaPart] = []
        if value is None or isinstance(value, str):
            text = value or ""
        else:
            parts = block.array("content") or []
            path = block.param("content")
            text = "\n".join(
                self._shown_block(part, f"{path}[{index}]", media) for index, part in enumerate(parts)
            )
        if block.boolean("is_error"):
            # Templates have no place for it, and a model that takes an error for a result goes astray.
            text = f"Error: {text}" if text else "Error"
        name = self._names[call_id]
        return ChatMessage("tool", text, name=name, tool_call_id=call_id, media=tuple(media))

    def text_block(self, value: object, path: str) -> str:
        self._count()
        block = Fields(_object(value, path), f"{path}.")
        kind = block.string("type")
        if kind == "text":
            return _required_text(block, "text")
        if kind in ("image", "document"):
            raise InvalidRequest(
                f"Invalid '{path}': blocks of type '{kind}' are not supported here.", param=path
            )
        if kind is None:
            raise block.missing("type")
        raise UnsupportedParameter(f"Invalid '{path}': blocks of this type are not supported.", param=path)


def _is_one_turn(earlier: ChatMessage, later: ChatMessage) -> bool:
    return earlier.role == later.role and later.role in ("user", "assistant") and not earlier.tool_calls


def _joined(earlier: ChatMessage, later: ChatMessage) -> ChatMessage:
    return ChatMessage(
        earlier.role,
        _lines(earlier.content, later.content),
        tool_calls=later.tool_calls,
        reasoning=_lines(earlier.reasoning, later.reasoning),
        media=earlier.media + later.media,
    )


def _lines(*texts: str | None) -> str | None:
    there = [text for text in texts if text is not None]
    return "\n".join(there) if there else None


def _object(value: object, param: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid '{param}': expected an object, but got {kind_of(value)}.", param=param)
    return value


def _required_text(block: Fields, name: str, *, max_chars: int | None = None) -> str:
    text = block.string(name, max_chars=max_chars)
    if text is None:
        raise block.missing(name)
    return text
