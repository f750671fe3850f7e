"""`tools` and `tool_choice` of Anthropic's wire: tools that the client runs itself; others are refused."""

from __future__ import annotations

import re

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.openai.fields import Fields, kind_of

MAX_TOOLS = 256
MAX_TOOL_NAME_CHARS = 128  # Anthropic's
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MODES = {
    "auto": ToolMode.AUTO,
    "any": ToolMode.REQUIRED,
    "tool": ToolMode.NAMED,
    "none": ToolMode.NONE,
}


def read_tool_use(fields: Fields) -> ToolUse:
    """Raises InvalidRequest or UnsupportedParameter with `param` like "tools[0].name"."""
    given = fields.array("tools") or []
    if len(given) > MAX_TOOLS:
        raise fields.fail("tools", f"it may hold at most {MAX_TOOLS} tools")
    tools = tuple(_tool(value, f"tools[{index}]") for index, value in enumerate(given))
    names: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in names:
            raise InvalidRequest(
                f"Invalid 'tools[{index}].name': there is another tool of this name.",
                param=f"tools[{index}].name",
            )
        names.add(tool.name)
    mode, name, is_parallel = _choice(fields)
    if name is not None and name not in names:
        raise InvalidRequest(
            "Invalid 'tool_choice.name': there is no tool of this name.", param="tool_choice.name"
        )
    if not tools:
        if mode in (ToolMode.REQUIRED, ToolMode.NAMED):
            raise fields.fail("tool_choice", "there are no tools to choose from")
        return ToolUse()
    return ToolUse(tools=tools, mode=mode, name=name, is_parallel=is_parallel)


def _tool(value: object, path: str) -> ToolSpec:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid '{path}': expected an object, but got {kind_of(value)}.", param=path)
    tool = Fields(value, f"{path}.")
    if tool.string("type") not in (None, "custom"):
        raise UnsupportedParameter(
            f"'{path}.type': only tools of type 'custom', which the client runs, are supported.",
            param=f"{path}.type",
        )
    name = tool.string("name")
    if name is None:
        raise tool.missing("name")
    if not _NAME.fullmatch(name):
        raise tool.fail(
            "name", f"it must be 1 to {MAX_TOOL_NAME_CHARS} of the characters a-z, A-Z, 0-9, '_' and '-'"
        )
    schema = tool.mapping("input_schema")
    if schema is None:
        raise tool.missing("input_schema")
    if schema.get("type", "object") != "object":
        raise tool.fail("input_schema", "its type must be 'object'")
    return ToolSpec(
        name=name,
        description=tool.string("description") or "",
        parameters=schema,
        is_strict=tool.boolean("strict") or False,
    )


def _choice(fields: Fields) -> tuple[ToolMode, str | None, bool]:
    """How tools are used, the one of NAMED, and whether several may be called at once."""
    given = fields.mapping("tool_choice")
    if given is None:
        return ToolMode.AUTO, None, True
    choice = Fields(given, "tool_choice.")
    kind = choice.choice("type", tuple(_MODES))
    if kind is None:
        raise choice.missing("type")
    mode = _MODES[kind]
    name = choice.string("name") if mode is ToolMode.NAMED else None
    if mode is ToolMode.NAMED and name is None:
        raise choice.missing("name")
    return mode, name, not (choice.boolean("disable_parallel_tool_use") or False)
