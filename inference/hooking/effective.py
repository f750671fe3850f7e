"""What policies made of a request's view, carried back to the request itself.

Only what they touched is made anew: turns and parameters that are the same objects stay as they were read,
with all that a view does not show of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from hooks.contracts.view import MessageView, RequestView, TextPart
from inference.domain.media import MediaPart
from inference.domain.messages import ChatMessage, Role
from inference.hooking.beside_turns import with_beside_texts
from inference.hooking.parameters import with_parameters
from inference.hooking.readable_text import readable
from inference.hooking.views import PART_BREAK, request_media
from inference.openai.protocol import ChatRequest, CompletionRequest, OutputRequest, Prompt

R = TypeVar("R", bound=OutputRequest)


class ViewRefused(ValueError):
    """Policies made of a request what no client could have sent."""


def effective_request(request: R, before: RequestView, after: RequestView) -> R:
    """`before` is the view that was made of `request`. Raises ViewRefused and ParameterRefused."""
    if after is before:
        return request
    changes: dict[str, Any] = {}
    if after.beside_texts is not before.beside_texts:
        request = with_beside_texts(request, [readable(text) for text in after.beside_texts])
    if isinstance(request, ChatRequest) and after.messages is not before.messages:
        changes = _chat_changes(request, before, after)
    if isinstance(request, CompletionRequest) and after.prompts is not before.prompts:
        changes = {"prompts": _prompts(request, after)}
    changed = replace(request, **changes) if changes else request
    return with_parameters(changed, before.endpoint, before.parameters, after.parameters)


def _chat_changes(request: ChatRequest, before: RequestView, after: RequestView) -> dict[str, Any]:
    if not after.messages:
        raise ViewRefused("no message is left")
    media = request_media(request)
    messages = tuple([_message(request, before, view, media) for view in after.messages])
    template = request.template
    if template.is_continued and messages[-1].role != "assistant":
        # What was to be continued is not the last turn any more.
        template = replace(template, is_continued=False, has_generation_prompt=True)
    return {"messages": messages, "template": template}


def _message(
    request: ChatRequest, before: RequestView, view: MessageView, media: Sequence[MediaPart]
) -> ChatMessage:
    if view.place is None:
        return _with_parts(ChatMessage(cast(Role, view.role), None, name=view.name), view, media)
    original = request.messages[view.place]
    if view is before.messages[view.place]:
        return original
    calls = [
        replace(call, arguments=readable(arguments))
        for call, arguments in zip(original.tool_calls, view.tool_arguments, strict=True)
    ]
    reasoning = None if view.reasoning is None else readable(view.reasoning)
    name = None if view.name is None else readable(view.name)
    changed = replace(original, name=name, tool_calls=tuple(calls), reasoning=reasoning)
    return _with_parts(changed, view, media)


def _with_parts(message: ChatMessage, view: MessageView, media: Sequence[MediaPart]) -> ChatMessage:
    texts: list[str] = []
    kept: list[MediaPart] = []
    for part in view.parts:
        if isinstance(part, TextPart):
            texts.append(readable(part.text))
        else:
            kept.append(media[part.place])
            texts.append(kept[-1].mark)
    content: str | None = ("" if view.is_text else PART_BREAK).join(texts)
    if not texts and message.role in ("assistant", "tool"):
        content = None
    return replace(message, content=content, media=tuple(kept))


def _prompts(request: CompletionRequest, after: RequestView) -> tuple[Prompt, ...]:
    """Those that came as token ids stay, unless others were put in their places."""
    prompts: list[Prompt] = []
    for prompt, seen in zip(request.prompts, after.prompts, strict=True):
        if seen is None:
            prompts.append(prompt)
            continue
        if not seen:
            raise ViewRefused("a prompt is empty")
        prompts.append(readable(seen))
    return tuple(prompts)
