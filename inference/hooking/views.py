"""A validated request as policies see it, whichever wire it came on.

A turn's text is one string inside of the service, in which marks stand for pictures and sounds
(inference/domain/media.py). Policies see text and media one behind the other instead, and of media an
address or a digest, never bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from hooks.contracts.view import MediaPartView, MediaSort, MessageView, PartView, RequestView, TextPart
from inference.domain.media import MediaKind, MediaPart
from inference.domain.messages import ChatMessage
from inference.hooking.beside_turns import beside_texts, other_texts
from inference.hooking.parameters import request_parameters
from inference.openai.protocol import ChatRequest, CompletionRequest, OutputRequest

_SORTS = {MediaKind.IMAGE: MediaSort.IMAGE, MediaKind.AUDIO: MediaSort.AUDIO}
PART_BREAK = "\n"
"""What stands between the parts of a turn (inference/openai/message_parts.py)."""


def request_view(request: OutputRequest, *, endpoint: str, token_texts: tuple[str, ...] = ()) -> RequestView:
    """With the model's name as it was sent. `token_texts` is what prompts say that came as token ids. Reads
    all bytes of media (`num_view_bytes`)."""
    messages: tuple[MessageView, ...] = ()
    tool_names: tuple[str, ...] = ()
    prompts: tuple[str | None, ...] = ()
    if isinstance(request, ChatRequest):
        messages = tuple(_message_views(request))
        tool_names = tuple([tool.name for tool in request.tool_use.tools])
    if isinstance(request, CompletionRequest):
        prompts = tuple([prompt if isinstance(prompt, str) else None for prompt in request.prompts])
    return RequestView(
        endpoint=endpoint,
        model=request.model,
        messages=messages,
        prompts=prompts,
        token_texts=token_texts,
        parameters=request_parameters(request),
        tool_names=tool_names,
        beside_texts=beside_texts(request),
        other_texts=tuple([text for text in other_texts(request) if text]),
        fields=request.field_names,
        metadata=dict(request.metadata or {}),
        end_user=request.user or "",
        is_stream=request.is_stream,
        opts_in=request.opts_in_hooks,
    )


def num_view_bytes(request: OutputRequest) -> int:
    """How many bytes making the view has to read, beyond the little that it always does."""
    if not isinstance(request, ChatRequest):
        return 0
    return sum([len(part.data or b"") for message in request.messages for part in message.media])


def request_media(request: ChatRequest) -> list[MediaPart]:
    """All pictures and sounds; their places in it are those of the view's parts."""
    return [part for message in request.messages for part in message.media]


def _message_views(request: ChatRequest) -> Iterator[MessageView]:
    num_before = 0
    for place, message in enumerate(request.messages):
        yield MessageView(
            role=message.role,
            parts=_parts(message, num_before),
            is_text=not message.media,
            name=message.name,
            reasoning=message.reasoning,
            tool_arguments=tuple([call.arguments for call in message.tool_calls]),
            place=place,
        )
        num_before += len(message.media)


def _parts(message: ChatMessage, first_place: int) -> tuple[PartView, ...]:
    if message.content is None:
        return ()
    if not message.media:
        return (TextPart(message.content),)
    places = {part.mark: index for index, part in enumerate(message.media)}
    # Each mark is a part by itself, with a break between it and its neighbours that is no part of theirs.
    found = re.compile("(" + "|".join([re.escape(mark) for mark in places]) + ")")
    pieces = found.split(message.content)
    parts: list[PartView] = []
    for index, piece in enumerate(pieces):
        if index % 2:
            place = places[piece]
            parts.append(_media_view(message.media[place], first_place + place))
            continue
        text = piece.removeprefix(PART_BREAK) if index else piece
        text = text.removesuffix(PART_BREAK) if index < len(pieces) - 1 else text
        if text:
            parts.append(TextPart(text))
    return tuple(parts)


def _media_view(part: MediaPart, place: int) -> MediaPartView:
    url = part.url
    if url is None:
        url = "data:" + hashlib.sha256(part.data or b"").hexdigest()
    return MediaPartView(_SORTS[part.kind], url, place)
