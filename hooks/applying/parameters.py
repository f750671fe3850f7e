"""Parameters set and held within bounds. Whether a value is one that a client could have sent is asked where
the view is carried back to the request, by the rules for clients."""

from __future__ import annotations

import math
from dataclasses import replace

from hooks.applying.refusal import ActionRefused
from hooks.contracts.actions import ClampParameter, SetParameter
from hooks.contracts.view import ParameterValue, RequestView

# The limit of an answer is one thing; a policy that speaks of it by one name means it by all of them.
_ONE_NAME = {"max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens"}
# What it means not to send one. What is not here is decided later, by the model's defaults or the service's.
_NOT_SENT: dict[str, float] = {
    "n": 1,
    "best_of": 1,
    "min_tokens": 0,
    "top_logprobs": 0,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}


def parameter_name(name: str) -> str:
    """What a parameter is called here, whichever of its names a policy has for it."""
    return _ONE_NAME.get(name, name)


def set_parameter(view: RequestView, action: SetParameter) -> RequestView:
    name = parameter_name(action.name)
    if action.value is None:
        return _without(view, name)
    if isinstance(action.value, float) and not math.isfinite(action.value):
        raise ActionRefused("the value is no number")
    return _with(view, name, action.value)


def clamp_parameter(view: RequestView, action: ClampParameter) -> RequestView:
    """One that was not sent, and whose default nobody knows here, counts as over the maximum."""
    name = parameter_name(action.name)
    sent = view.parameters.get(name)
    value: ParameterValue = _NOT_SENT.get(name) if sent is None else sent
    if value is None:
        return view if action.maximum is None else _with(view, name, _whole(action.maximum))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ActionRefused("the parameter is no number")
    if action.maximum is not None and not value <= action.maximum:
        return _with(view, name, _whole(action.maximum))
    if action.minimum is not None and not value >= action.minimum:
        return _with(view, name, _whole(action.minimum))
    return view


def _whole(bound: float) -> float | int:
    """Bounds are written as any number; of a whole one, a parameter that counts is made."""
    return int(bound) if float(bound).is_integer() else bound


def _with(view: RequestView, name: str, value: ParameterValue) -> RequestView:
    if view.parameters.get(name) == value and type(view.parameters.get(name)) is type(value):
        return view
    return replace(view, parameters={**view.parameters, name: value})


def _without(view: RequestView, name: str) -> RequestView:
    if name not in view.parameters:
        return view
    return replace(view, parameters={key: value for key, value in view.parameters.items() if key != name})
