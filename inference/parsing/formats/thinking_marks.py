"""Which marks a template's models write around their thinking, where their format has none of its own."""

from __future__ import annotations

from typing import Final

from inference.parsing.formats.message_format import Thinking

_KNOWN: Final = (
    Thinking("<seed:think>", "</seed:think>"),
    Thinking("<mm:think>", "</mm:think>"),
    Thinking("[THINK]", "[/THINK]"),
    Thinking("<|START_THINKING|>", "<|END_THINKING|>"),
    Thinking("<|inner_prefix|>", "<|inner_suffix|>"),
    Thinking("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    Thinking("<think>", "</think>"),
)


def thinking_of(template_source: str, *, ends_at_call: bool = False) -> Thinking | None:
    """None where models of this template do not think, as far as it tells."""
    for known in _KNOWN:
        if known.begin.strip() in template_source and known.end in template_source:
            return Thinking(known.begin, known.end, ends_at_call)
    # Some templates only take old thinking away, by its end.
    if "</think>" in template_source:
        return Thinking("<think>", "</think>", ends_at_call)
    return None
