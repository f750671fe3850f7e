"""What a policy may set a parameter to: what a client could have sent, on a wire that has the parameter."""

from __future__ import annotations

from hooks.contracts.view import ParameterValue
from inference.hooking.parameters import ParameterRefused, parameter_fault, with_parameters
from inference.openai.parameters import MAX_CHOICES
from inference.openai.protocol import CompletionRequest, SamplingRequest


def site_parameter_fault(name: str, value: ParameterValue) -> str:
    """Implements hooks.services.parameter_rules.ParameterRules. Whether a value fits what else a request has
    (`n` only becomes smaller) is seen when one comes."""
    fault = parameter_fault(name, value)
    if not fault or not _completion_fault(name, value):
        return ""
    # As clients are told it: "'temperature': expected a number between 0 and 2."
    said = fault.partition("': ")[2] or fault
    return said.rstrip(".")


def _completion_fault(name: str, value: ParameterValue) -> str:
    request = CompletionRequest(
        model="", sampling=SamplingRequest(), prompts=("",), num_choices=1, best_of=MAX_CHOICES
    )
    try:
        with_parameters(request, "", {}, {name: value})
    except ParameterRefused as fault:
        return str(fault)
    return ""
