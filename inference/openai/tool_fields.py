"""`tools`, `tool_choice` and `parallel_tool_calls`: what a caller offers, and what the answer may do with it.

What is wrong with a tool is found here and not in a template that prints half of it. Functions come
nested, as Chat Completions has them, or flat, as the Responses API has them; other kinds of
tools are run by OpenAI's own servers, so they are refused by name. Limits are OpenAI's where it has some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from inference.domain.errors import InvalidRequest, UnsupportedParameter
from inference.domain.tools import ToolMode, ToolSpec, ToolUse
from inference.openai.fields import Fields, kind_of

MAX_TOOLS = 128
MAX_TOOL_NAME_CHARS = 64
# All tools of one request, as JSON. Far more than fits a context, far less than what makes the prompt slow.
MAX_TOOLS_CHARS = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MODES = {"none": ToolMode.NONE, "auto": ToolMode.AUTO, "required": ToolMode.REQUIRED}


def read_tool_use(fields: Fields, ignored: list[str]) -> ToolUse:
    """The three fields of one request. An empty list of tools is none; without tools there is nothing to
    choose, but "none" and "auto" beside an empty list are what SDKs send for that.

    Raises InvalidRequest or UnsupportedParameter with `param` like "tools[0].function.name".
    """
    given = fields.array("tools")
    choice = fields.take("tool_choice")
    is_parallel = fields.boolean("parallel_tool_calls")
    if not given:
        if choice is not None and (given is None or choice not in ("none", "auto")):
            raise fields.fail("tool_choice", "it is only allowed when 'tools' are specified")
        return ToolUse()
    tools = _tools(fields, given, ignored)
    mode, name, allowed = _choice(fields, choice, frozenset(tool.name for tool in tools))
    return ToolUse(
        tools=tools, mode=mode, name=name, is_parallel=is_parallel is not False, allowed_names=allowed
    )


def _tools(fields: Fields, given: Sequence[object], ignored: list[str]) -> tuple[ToolSpec, ...]:
    if len(given) > MAX_TOOLS:
        raise fields.fail("tools", f"it may hold at most {MAX_TOOLS} tools")
    if len(json.dumps(given, ensure_ascii=False)) > MAX_TOOLS_CHARS:
        raise fields.fail("tools", f"its JSON may have at most {MAX_TOOLS_CHARS} characters")
    path = fields.param("tools")
    tools = tuple(_tool(value, f"{path}[{index}]", ignored) for index, value in enumerate(given))
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        if tool.name in seen:
            raise InvalidRequest(
                f"Invalid '{path}[{index}]': there is another tool of this name.", param=f"{path}[{index}]"
            )
        seen.add(tool.name)
    return tools


def _tool(value: object, path: str, ignored: list[str]) -> ToolSpec:
    tool = Fields(_object(value, path), f"{path}.")
    kind = tool.string("type")
    if kind != "function" and not (kind is None and tool.take("function") is not None):
        if kind is None:
            raise tool.missing("type")
        param = tool.param("type")
        shown = kind if _NAME.fullmatch(kind) else "…"
        raise UnsupportedParameter(
            f"'{param}': tools of type '{shown}' are not supported, only functions.", param=param
        )
    nested = tool.mapping("function")
    function = tool if nested is None else Fields(nested, f"{path}.function.")
    spec = ToolSpec(
        name=_name(function),
        description=function.string("description") or "",
        parameters=_parameters(function),
        is_strict=function.boolean("strict") or False,
    )
    labels = [f"tools[].{name}" for name in tool.unknown()]
    if nested is not None:
        labels += [f"tools[].function.{name}" for name in function.unknown()]
    ignored.extend(label for label in labels if label not in ignored)
    return spec


def _name(function: Fields) -> str:
    name = function.string("name")
    if name is None:
        raise function.missing("name")
    if not _NAME.fullmatch(name):
        raise function.fail(
            "name", f"it must be 1 to {MAX_TOOL_NAME_CHARS} of the characters a-z, A-Z, 0-9, '_' and '-'"
        )
    return name


def _parameters(function: Fields) -> Mapping[str, Any] | None:
    schema = function.mapping("parameters")
    if schema is not None and schema.get("type", "object") != "object":
        raise function.fail("parameters", "it must be a JSON schema of type 'object'")
    return schema


def _choice(
    fields: Fields, choice: object, names: frozenset[str]
) -> tuple[ToolMode, str | None, frozenset[str] | None]:
    """Mode, the function of NAMED, the functions of `allowed_tools`."""
    if choice is None:
        return ToolMode.AUTO, None, None
    if isinstance(choice, str):
        if choice in _MODES:
            return _MODES[choice], None, None
        if choice in names:
            return ToolMode.NAMED, choice, None
        raise fields.fail(
            "tool_choice", "it must be 'none', 'auto', 'required' or the choice of one of the 'tools'"
        )
    if not isinstance(choice, dict):
        raise fields.wrong_kind("tool_choice", "a string or an object", choice)
    chosen = Fields(choice, "tool_choice.")
    kind = chosen.string("type")
    if kind == "allowed_tools":
        mode, allowed = _allowed(chosen, names)
        return mode, None, allowed
    if kind not in ("function", None):
        raise UnsupportedParameter(
            "'tool_choice.type' must be 'function' or 'allowed_tools': other tools are not supported.",
            param="tool_choice.type",
        )
    return ToolMode.NAMED, _chosen_name(choice, "tool_choice", names), None


def _allowed(chosen: Fields, names: frozenset[str]) -> tuple[ToolMode, frozenset[str]]:
    nested = chosen.mapping("allowed_tools")
    allowed = chosen if nested is None else Fields(nested, "tool_choice.allowed_tools.")
    mode = allowed.choice("mode", ("auto", "required"))
    if mode is None:
        raise allowed.missing("mode")
    tools = allowed.array("tools")
    if not tools:
        raise allowed.fail("tools", "it must name at least one tool")
    if len(tools) > MAX_TOOLS:
        raise allowed.fail("tools", f"it may hold at most {MAX_TOOLS} tools")
    path = allowed.param("tools")
    return _MODES[mode], frozenset(
        _chosen_name(_object(tool, f"{path}[{index}]"), f"{path}[{index}]", names)
        for index, tool in enumerate(tools)
    )


def _chosen_name(choice: dict[str, object], path: str, names: frozenset[str]) -> str:
    """`{"function": {"name": …}}` or `{"name": …}`, where the name is one of `names`."""
    whole = Fields(choice, f"{path}.")
    nested = whole.mapping("function")
    function = whole if nested is None else Fields(nested, f"{path}.function.")
    name = function.string("name")
    if name is None:
        raise function.missing("name")
    if name not in names:
        raise function.fail("name", "there is no function of this name in 'tools'")
    return name


def _object(value: object, param: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"Invalid '{param}': expected an object, but got {kind_of(value)}.", param=param)
    return value
