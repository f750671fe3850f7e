"""Text of a request masked and replaced."""

from __future__ import annotations

from dataclasses import replace

from hooks.applying.messages import last_user_place, with_message
from hooks.applying.refusal import ActionRefused
from hooks.contracts.actions import MaskText, ReplaceText, TextTarget
from hooks.contracts.view import MediaPartView, MessageView, PartView, RequestView, TextPart
from hooks.matching import MAX_MASKED_CHARS, Mask, MaskFailed, mask_compiled


def mask_input(view: RequestView, action: MaskText) -> RequestView:
    """In all turns, whoever's they are: their text, their thinking, the arguments of their calls; and in
    prompts. Raises MaskFailed, also for more than
    MAX_MASKED_CHARS in all."""
    if TextTarget.INPUT not in action.targets:
        return view
    if None in view.prompts:
        raise ActionRefused("a prompt is given as tokens")
    if view.num_chars > MAX_MASKED_CHARS:
        raise MaskFailed("the text is too large")
    mask = mask_compiled(action)
    messages = tuple([_masked(message, mask) for message in view.messages])
    prompts = tuple([None if prompt is None else mask.masked(prompt) for prompt in view.prompts])
    if prompts == view.prompts and all(
        one is other for one, other in zip(messages, view.messages, strict=True)
    ):
        return view
    return replace(view, messages=messages, prompts=prompts)


def replace_input(view: RequestView, action: ReplaceText) -> RequestView:
    """The text of the last user message (media stay), or of each prompt."""
    if action.target is not TextTarget.INPUT:
        return view
    if view.prompts:
        return replace(view, prompts=tuple([action.text for _ in view.prompts]))
    place = last_user_place(view)
    if place is None:
        raise ActionRefused("there is no user message")
    message = view.messages[place]
    media = [part for part in message.parts if isinstance(part, MediaPartView)]
    return with_message(view, place, replace(message, parts=(*media, TextPart(action.text))))


def _masked(message: MessageView, mask: Mask) -> MessageView:
    parts: tuple[PartView, ...] = tuple(
        [part if isinstance(part, MediaPartView) else _masked_part(part, mask) for part in message.parts]
    )
    reasoning = None if message.reasoning is None else mask.masked(message.reasoning)
    arguments = tuple([mask.masked(text, is_json=True) for text in message.tool_arguments])
    if (parts, reasoning, arguments) == (message.parts, message.reasoning, message.tool_arguments):
        return message
    return replace(message, parts=parts, reasoning=reasoning, tool_arguments=arguments)


def _masked_part(part: TextPart, mask: Mask) -> TextPart:
    text = mask.masked(part.text)
    return part if text == part.text else TextPart(text)
