"""Constraints that calls of all formats have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inference.domain.constraint import Tag, TaggedText
from inference.domain.tools import ToolSpec, ToolUse


def arguments_schema(tool: ToolSpec) -> Mapping[str, Any]:
    """Of an object, always: arguments that are none cannot be called with."""
    if not tool.parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if "type" in tool.parameters:
        return tool.parameters
    return {"type": "object", **tool.parameters}


def tagged_calls(
    tools: ToolUse, tags: Sequence[Tag], *, trigger: str, separator: str = ""
) -> TaggedText | None:
    """Each call is a tag, one for each function: calls alone where they are enforced, otherwise text first
    as well. Behind a call comes another one or the end. None where nothing may be called."""
    if not tags:
        return None
    return TaggedText(
        tags=tuple(tags),
        triggers=(trigger,),
        has_free_text=not tools.is_enforced,
        has_later_text=False,
        min_tags=1 if tools.is_enforced else 0,
        max_tags=None if tools.is_parallel else 1,
        separator=separator,
    )


def listed_calls(
    tools: ToolUse,
    trigger: str,
    begin: str,
    end: str,
    tags: Sequence[Tag],
    *,
    separator: str = ", ",
) -> TaggedText | None:
    """All calls of an answer stand together between `begin` and `end`."""
    if not tags:
        return None
    calls = TaggedText(
        tags=tuple(tags),
        triggers=tuple({tag.begin: None for tag in tags}),
        has_free_text=False,
        has_later_text=False,
        min_tags=1,
        max_tags=None if tools.is_parallel else 1,
        separator=separator,
    )
    return TaggedText(
        tags=(Tag(begin, calls, end),),
        triggers=(trigger,),
        has_free_text=not tools.is_enforced,
        has_later_text=False,
        min_tags=1 if tools.is_enforced else 0,
        max_tags=1,
    )


def one_tag(tag: Tag, *, is_optional: bool = False) -> TaggedText:
    """A part of an answer that has marks around it."""
    return TaggedText(
        tags=(tag,),
        triggers=(),
        has_free_text=False,
        has_later_text=False,
        min_tags=0 if is_optional else 1,
        max_tags=1,
    )
