"""What a request tells a model beside its turns, as text that can be read and as text that can be changed.

Descriptions of functions, documents and the ids of calls are words that somebody wrote, and a mask that has
to hold holds for them. Names, values of parameters and forms of answers are not changed: a function of
another name is another function. They are looked at, or a word could be put into the model's mouth by them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from inference.domain.constraint import (
    Choice,
    ConstraintSpec,
    Grammar,
    InOrder,
    JsonSchema,
    Regex,
    TaggedText,
)
from inference.domain.messages import ChatMessage
from inference.domain.tools import ToolSpec
from inference.openai.protocol import ChatRequest, CompletionRequest, OutputRequest

R = TypeVar("R", bound=OutputRequest)
Change = Callable[[str], str]
# Words about a parameter; whatever else stands in a schema says what a call may be.
_DESCRIBING = frozenset({"title", "description"})


def beside_texts(request: OutputRequest) -> tuple[str, ...]:
    """Those that can be changed, in the order of `with_beside_texts`."""
    found: list[str] = []

    def read(text: str) -> str:
        found.append(text)
        return text

    _changed(request, read)
    return tuple(found)


def with_beside_texts(request: R, texts: Sequence[str]) -> R:
    """As many as `beside_texts` gave."""
    left = iter(texts)
    return _changed(request, lambda _: next(left))


def other_texts(request: OutputRequest) -> Iterator[str]:
    """Those that cannot."""
    if isinstance(request, CompletionRequest) and request.suffix:
        yield request.suffix
    if request.constraint is not None:
        yield from _form_texts(request.constraint)
    if not isinstance(request, ChatRequest):
        return
    for tool in request.tool_use.tools:
        yield tool.name
        yield from _words(tool.parameters, is_schema=True)
    for message in request.messages:
        yield from [call.name for call in message.tool_calls]
    if request.template.source:
        yield request.template.source
    yield from _words(request.template.kwargs)
    for document in request.template.documents:
        # Their words are among those that can be changed, what they are called is not.
        yield from _words(_document(document, lambda _: ""))


def _changed(request: R, change: Change) -> R:
    if not isinstance(request, ChatRequest):
        return request
    tools = tuple([_tool(tool, change) for tool in request.tool_use.tools])
    documents = tuple([_document(document, change) for document in request.template.documents])
    return replace(
        request,
        messages=tuple([_with_ids(message, change) for message in request.messages]),
        tool_use=replace(request.tool_use, tools=tools),
        template=replace(request.template, documents=documents),
    )


def _with_ids(message: ChatMessage, change: Change) -> ChatMessage:
    """Templates write ids into the prompt. Those of a call and of what came of it stay the same."""
    if not message.tool_calls and not message.tool_call_id:
        return message
    calls = tuple([replace(call, id=change(call.id)) for call in message.tool_calls])
    call_id = change(message.tool_call_id) if message.tool_call_id else message.tool_call_id
    return replace(message, tool_calls=calls, tool_call_id=call_id)


def _tool(tool: ToolSpec, change: Change) -> ToolSpec:
    description = change(tool.description) if tool.description else tool.description
    return replace(tool, description=description, parameters=_described(tool.parameters, change))


def _described(schema: Any, change: Change) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: change(value)
            if name in _DESCRIBING and isinstance(value, str)
            else _described(value, change)
            for name, value in schema.items()
        }
    return [_described(one, change) for one in schema] if isinstance(schema, list) else schema


def _document(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _document(one, change) for name, one in value.items()}
    return [_document(one, change) for one in value] if isinstance(value, list) else value


def _words(value: Any, *, is_schema: bool = False) -> Iterator[str]:
    """All names, words and numbers of a JSON value, without what JSON writes around and into them."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            for name, member in reversed(list(one.items())):
                if not (is_schema and name in _DESCRIBING and isinstance(member, str)):
                    left += (member, name)
        elif isinstance(one, list | tuple):
            left += reversed(one)
        elif isinstance(one, str):
            yield one
        elif one is not None:
            yield json.dumps(one, default=str)


def _form_texts(form: ConstraintSpec) -> Iterator[str]:
    """What an answer has to have in it is put into the model's mouth."""
    match form:
        case JsonSchema(schema):
            yield from _words(schema)
        case Regex(text) | Grammar(text):
            yield text
        case Choice(options):
            yield from options
        case TaggedText():
            yield from (*form.triggers, form.separator, form.prefix, form.suffix)
            for tag in form.tags:
                yield from (tag.begin, tag.end, *_form_texts(tag.body))
        case InOrder(parts):
            for part in parts:
                yield from _form_texts(part)
