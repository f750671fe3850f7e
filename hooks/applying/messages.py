"""Turns of a conversation: text put in, system prompts, pictures and sounds taken out."""

from __future__ import annotations

from dataclasses import replace

from hooks.applying.refusal import ActionRefused
from hooks.contracts.actions import AddSystemPrompt, ConsumeMedia, InjectText
from hooks.contracts.view import MediaPartView, MessageView, PartView, RequestView, TextPart

_SYSTEM_ROLES = frozenset({"system", "developer"})
# Between two system prompts, so that neither runs into the other.
_PARAGRAPH = "\n\n"


def inject_text(view: RequestView, action: InjectText) -> RequestView:
    """In front of the last user message: a string gets it without anything between, a list of parts as its
    first part, no content is replaced by it; without a user message, one is appended. Prompts get it in
    front, each."""
    if not action.text:
        return view
    if view.prompts:
        if None in view.prompts:
            raise ActionRefused("a prompt is given as tokens")
        return replace(view, prompts=tuple([f"{action.text}{prompt}" for prompt in view.prompts]))
    place = last_user_place(view)
    if place is None:
        added = MessageView("user", (TextPart(action.text),))
        return replace(view, messages=(*view.messages, added))
    message = view.messages[place]
    parts: tuple[PartView, ...]
    if not message.parts:
        parts = (TextPart(action.text),)
    elif message.is_text:
        parts = (TextPart(action.text + message.text),)
    else:
        parts = (TextPart(action.text), *message.parts)
    return with_message(view, place, replace(message, parts=parts))


def add_system_prompt(view: RequestView, action: AddSystemPrompt) -> RequestView:
    """Completions have no turns, and so no system prompt."""
    if not action.text:
        return view
    if view.prompts:
        raise ActionRefused("there is no system prompt on this endpoint")
    places = [place for place, message in enumerate(view.messages) if message.role in _SYSTEM_ROLES]
    if action.unless_present and any(action.text in view.messages[place].text for place in places):
        return view
    if not places:
        return replace(view, messages=(MessageView("system", (TextPart(action.text),)), *view.messages))
    place = places[0] if action.is_before else places[-1]
    message = view.messages[place]
    parts: tuple[PartView, ...]
    if not message.text:
        parts = (TextPart(action.text), *[part for part in message.parts if isinstance(part, MediaPartView)])
    elif message.is_text:
        texts = (action.text, message.text) if action.is_before else (message.text, action.text)
        parts = (TextPart(_PARAGRAPH.join(texts)),)
    elif action.is_before:
        parts = (TextPart(action.text), *message.parts)
    else:
        parts = (*message.parts, TextPart(action.text))
    return with_message(view, place, replace(message, parts=parts))


def consume_media(view: RequestView, action: ConsumeMedia) -> RequestView:
    """One picture or sound, if it is the one that is meant, and a user's."""
    place = last_user_place(view) if action.message_index is None else action.message_index
    if place is None or not 0 <= place < len(view.messages) or view.messages[place].role != "user":
        raise ActionRefused("there is no such message")
    message = view.messages[place]
    index = _first_media(message) if action.part_index is None else action.part_index
    part = message.parts[index] if index is not None and 0 <= index < len(message.parts) else None
    if not isinstance(part, MediaPartView):
        raise ActionRefused("there is no picture or sound")
    if (action.sort or part.sort) != part.sort or (action.url is not None and action.url != part.url):
        raise ActionRefused("it is another picture or sound")
    assert index is not None
    instead = (TextPart(action.user_text),) if action.user_text else ()
    parts = (*message.parts[:index], *instead, *message.parts[index + 1 :])
    return with_message(view, place, replace(message, parts=parts))


def last_user_place(view: RequestView) -> int | None:
    places = range(len(view.messages) - 1, -1, -1)
    return next((place for place in places if view.messages[place].role == "user"), None)


def with_message(view: RequestView, place: int, message: MessageView) -> RequestView:
    return replace(view, messages=(*view.messages[:place], message, *view.messages[place + 1 :]))


def _first_media(message: MessageView) -> int | None:
    return next((place for place, part in enumerate(message.parts) if isinstance(part, MediaPartView)), None)
