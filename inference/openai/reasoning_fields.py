"""How a caller turns thinking on, off, and down: many names for it are in use, and they have an order.

Each server gave the switch a name of its own, and clients send several at once, so that one of them
works. From the weakest to the strongest:

    `reasoning` object < `reasoning_effort` < the boolean names < a budget of 0 < the boolean names in
    `chat_template_kwargs`

Among the boolean names, the later one of SWITCHES wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.domain.reasoning import EFFORTS, ReasoningFormat, ReasoningOptions
from inference.openai.fields import Fields

SWITCHES = (
    "enable_thinking",
    "enableThinking",
    "enable_reasoning",
    "use_reasoning",
    "reasoning_enabled",
    "use_thinking",
    "thinking_enabled",
    "enable_think",
    "think_enabled",
)
# One budget under several names; the first that is given counts.
BUDGETS = ("thinking_budget", "reasoning_budget", "thinking_budget_tokens")
NO_BUDGET = -1  # llama.cpp's word for it
_MAX_INT32 = 2**31 - 1


def read_reasoning(
    fields: Fields, template_kwargs: Mapping[str, Any], ignored: list[str]
) -> ReasoningOptions:
    """What the caller says about thinking, in all places. Raises InvalidRequest naming the field."""
    named = fields.choice("reasoning_format", [format.value for format in ReasoningFormat])
    by_object = _reasoning_object(fields, ignored)
    effort = fields.choice("reasoning_effort", EFFORTS)
    switch = _last_switch(fields)
    budget = next((value for value in [_budget(fields, name) for name in BUDGETS] if value is not None), None)
    by_kwargs = _last_switch(Fields(dict(template_kwargs), f"{fields.param('chat_template_kwargs')}."))

    is_enabled = by_object.is_enabled
    if effort is not None:
        is_enabled = effort != "none"
    if switch is not None:
        is_enabled = switch
    if budget == 0:
        is_enabled = False
    if by_kwargs is not None:
        is_enabled = by_kwargs
    max_tokens = by_object.max_tokens if budget is None else budget
    return ReasoningOptions(
        format=by_object.format if named is None else ReasoningFormat(named),
        is_enabled=is_enabled,
        effort=by_object.effort if effort is None else effort,
        max_tokens=None if max_tokens == NO_BUDGET else max_tokens,
    )


def _reasoning_object(fields: Fields, ignored: list[str]) -> ReasoningOptions:
    given = fields.mapping("reasoning")
    if given is None:
        return ReasoningOptions()
    reasoning = Fields(given, f"{fields.param('reasoning')}.")
    is_enabled = reasoning.boolean("enabled")
    effort = reasoning.choice("effort", EFFORTS)
    max_tokens = _budget(reasoning, "max_tokens")
    if is_enabled is False or effort == "none" or max_tokens == 0:
        is_enabled = False
    elif effort is not None or max_tokens is not None:
        is_enabled = True
    format = ReasoningFormat.HIDDEN if reasoning.boolean("exclude") else None
    reasoning.take("summary")  # OpenAI's: thinking is shown here as it is, there is nothing to sum up
    ignored.extend(f"reasoning.{name}" for name in reasoning.unknown())
    return ReasoningOptions(format=format, is_enabled=is_enabled, effort=effort, max_tokens=max_tokens)


def _last_switch(fields: Fields) -> bool | None:
    last: bool | None = None
    for name in SWITCHES:
        value = fields.boolean(name)
        last = last if value is None else value
    return last


def _budget(fields: Fields, name: str) -> int | None:
    return fields.integer(name, NO_BUDGET, _MAX_INT32)
