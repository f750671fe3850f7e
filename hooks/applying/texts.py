"""Text of a request masked and replaced."""

from __future__ import annotations

from dataclasses import replace

from hooks.applying.messages import last_user_place, with_message
from hooks.applying.refusal import ActionRefused
from hooks.contracts.actions import MaskText, ReplaceText, TextTarget
from hooks.contracts.view import MediaPartView, MessageView, PartView, RequestView, TextPart
from hooks.matching import MAX_MASKED_CHARS, Mask, MaskFailed, mask_compiled


class MaskIncomplete(MaskFailed):
    """It is found where nobody can mask it. `view` is the request with all that could be."""

    def __init__(self, reason: str, view: RequestView) -> None:
        super().__init__(reason)
        self.view = view


def mask_input(view: RequestView, action: MaskText) -> RequestView:
    """In all turns, whoever's they are: their names and text, their thinking, the arguments of their calls;
    in prompts, and in what is told beside them. Raises MaskIncomplete where that is not all of it, and
    MaskFailed, also for more than MAX_MASKED_CHARS in all."""
    if TextTarget.INPUT not in action.targets:
        return view
    if view.num_chars + sum(map(len, view.fixed_texts)) > MAX_MASKED_CHARS:
        raise MaskFailed("the text is too large")
    mask = mask_compiled(action)
    masked = _view_masked(view, mask)
    if view.has_unseen_prompts:
        raise MaskIncomplete("a prompt is given as tokens", masked)
    if any(mask.is_in(text) for text in view.fixed_texts):
        raise MaskIncomplete("something is found where it cannot be masked", masked)
    return masked


def _view_masked(view: RequestView, mask: Mask) -> RequestView:
    messages = tuple([_masked(message, mask) for message in view.messages])
    prompts = tuple([None if prompt is None else mask.masked(prompt) for prompt in view.prompts])
    beside = tuple([mask.masked(text) for text in view.beside_texts])
    if (prompts, beside) == (view.prompts, view.beside_texts) and all(
        one is other for one, other in zip(messages, view.messages, strict=True)
    ):
        return view
    return replace(view, messages=messages, prompts=prompts, beside_texts=beside)


def replace_input(view: RequestView, action: ReplaceText) -> RequestView:
    """The text of the last user message (media stay), or of each prompt."""
    if action.target is not TextTarget.INPUT:
        return view
    if view.prompts:
        return replace(view, prompts=tuple([action.text for _ in view.prompts]), token_texts=())
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
    name = None if message.name is None else mask.masked(message.name)
    reasoning = None if message.reasoning is None else mask.masked(message.reasoning)
    arguments = tuple([mask.masked(text, is_json=True) for text in message.tool_arguments])
    changes = {"parts": parts, "name": name, "reasoning": reasoning, "tool_arguments": arguments}
    if all(getattr(message, member) == value for member, value in changes.items()):
        return message
    return replace(message, **changes)  # type: ignore[arg-type]


def _masked_part(part: TextPart, mask: Mask) -> TextPart:
    text = mask.masked(part.text)
    return part if text == part.text else TextPart(text)
