"""A conversation made ready for the engine, with what the reader of the answer must know of it."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.media_run import MediaPlace


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """`token_ids` is never empty.

    `answer_begin` is the text that the answer goes on from: what the template wrote behind the last
    turn (`<|im_start|>assistant\\n<think>\\n`: thinking has begun), and behind that the text of an
    answer that is continued. "" where the template writes nothing there.

    `template_source` is the Jinja source that made it, by which formats of tool calls and thinking are
    known. With `is_emulated` the template knows no tools: they were described in plain words, and
    calls come in the convention of tool_emulation.py. `media` says where pictures and sounds stand.
    The last turn ends with the first `boundary` tokens, and behind them comes `answer_begin`; 0 where that
    does not begin with a token of its own.
    """

    token_ids: tuple[int, ...]
    answer_begin: str
    template_source: str
    is_emulated: bool = False
    media: tuple[MediaPlace, ...] = ()
    boundary: int = 0
