"""Which format a model's answers have: told by what its chat template contains.

The order matters, since families borrow each other's marks. It is that of llama.cpp (common/chat.cpp,
`common_chat_try_specialized_template`), with those that llama.cpp finds out by experiment behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from inference.parsing.formats import (
    apertus,
    cohere,
    functionary,
    gemma4,
    gigachat,
    harmony,
    hermes,
    lfm2,
    listed_json,
    llama3,
    mistral,
    named_json,
    plain,
    tagged_families,
)
from inference.parsing.formats.message_format import MessageFormat

_FAMILIES: Final[tuple[Callable[[str], MessageFormat | None], ...]] = (
    mistral.of_template,
    harmony.of_template,
    functionary.of_template,
    named_json.of_template,
    cohere.of_template,
    lfm2.of_template,
    gigachat.of_template,
    gemma4.of_template,
    tagged_families.of_template,
    apertus.of_template,
    listed_json.of_template,
    llama3.of_template,
    hermes.of_template,
)
# Marks that are known to mean something which no format here reads.
_UNREAD: Final = ("]<]minimax[>[", "<atem:function_calls>", "<tool_calls{}>", "<|tool_call:begin|>")


@lru_cache(maxsize=64)
def format_of(template_source: str) -> MessageFormat:
    """The family's; a plain one, without calls, where it is none that is known."""
    if not any(mark in template_source for mark in _UNREAD):
        for of_template in _FAMILIES:
            found = of_template(template_source)
            if found is not None:
                return found
    return plain.of_template(template_source)


def reads_tool_calls(template_source: str) -> bool:
    """Whether calls of this template's models can be read: tools are emulated otherwise."""
    return format_of(template_source).has_calls
