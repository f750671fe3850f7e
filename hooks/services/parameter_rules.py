"""Which values of parameters a request may have: hooks know the names that policies give, not the ranges.

The site names what knows them in the setting HOOK_PARAMETER_RULES.
"""

from __future__ import annotations

from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.contracts.view import ParameterValue


class ParameterRules(Protocol):
    """A function."""

    def __call__(self, name: str, value: ParameterValue) -> str:
        """Why no request can have this, in a sentence that begins in the middle and ends without a dot; "" if
        one can."""
        ...


def parameter_rules() -> ParameterRules:
    found: ParameterRules = import_string(settings.HOOK_PARAMETER_RULES)
    return found
