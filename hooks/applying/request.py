"""One action on a request that has not been computed yet."""

from __future__ import annotations

from hooks.applying.messages import add_system_prompt, consume_media, inject_text
from hooks.applying.parameters import clamp_parameter, set_parameter
from hooks.applying.texts import mask_input, replace_input
from hooks.contracts.actions import (
    Action,
    AddSystemPrompt,
    ClampParameter,
    ConsumeMedia,
    InjectText,
    MaskText,
    ReplaceText,
    SetParameter,
)
from hooks.contracts.view import RequestView


def apply_to_request(view: RequestView, action: Action) -> RequestView:
    """The request with it; the same object where it changes nothing, or is no action on a request. Raises
    ActionRefused, and MaskFailed of a mask."""
    match action:
        case InjectText():
            return inject_text(view, action)
        case AddSystemPrompt():
            return add_system_prompt(view, action)
        case SetParameter():
            return set_parameter(view, action)
        case ClampParameter():
            return clamp_parameter(view, action)
        case MaskText():
            return mask_input(view, action)
        case ReplaceText():
            return replace_input(view, action)
        case ConsumeMedia():
            return consume_media(view, action)
        case _:
            return view
