"""What an assistant thought in earlier turns, told apart from what it said.

Templates of thinking models leave the thinking of older turns out, or write it in a place of its own.
They find it in a field of the message, or else cut it out of the text at their own markers. Clients
send it either way; here it becomes the field before the template sees it, since the markers
in a caller's text are hidden from templates (control_text.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inference.domain.messages import ChatMessage

Markers = tuple[str, str]

# Those of the families in llama.cpp's collection of templates.
_KNOWN: tuple[Markers, ...] = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
)


def thinking_markers(literals: Iterable[str]) -> tuple[Markers, ...]:
    """The markers that a template with these strings in its source knows."""
    known = "\n".join(literals)
    return tuple(markers for markers in _KNOWN if markers[1] in known)


def split_thinking(
    message: ChatMessage, markers: Iterable[Markers], *, is_continued: bool = False
) -> ChatMessage:
    """The message with thinking that stands at the beginning of its content in `reasoning`.

    Thinking that was never closed, and markers further on, are text like any other; but an answer that
    goes on (`is_continued`) may do so inside its thinking.
    """
    if message.role != "assistant" or message.reasoning is not None or not message.content:
        return message
    text = message.content.lstrip()
    for begin, end in markers:
        if text.startswith(begin):
            thought, closed, said = text[len(begin) :].partition(end)
            if closed:
                return replace(message, reasoning=thought.strip("\n") or None, content=said.lstrip("\n"))
            if is_continued:
                return replace(message, reasoning=thought.lstrip("\n"), content=None)
    return message
