"""Conditions of policies: expressions in CEL over what is known at a point.

variables  what an expression may speak of, and where      lexing    what it does speak of, and how deeply
moment     what is known at one firing                     context   the same as values for CEL
compiling  expressions checked, compiled and kept
"""

from hooks.conditions.compiling import (
    MAX_CONDITION_CHARS,
    Condition,
    ConditionProblem,
    condition_check,
    condition_compiled,
)
from hooks.conditions.context import MAX_TEXT_BYTES, ConditionFailed, Context
from hooks.conditions.moment import Moment
from hooks.conditions.variables import VARIABLES, Variable, variables_at

__all__ = [
    "MAX_CONDITION_CHARS",
    "MAX_TEXT_BYTES",
    "VARIABLES",
    "Condition",
    "ConditionFailed",
    "ConditionProblem",
    "Context",
    "Moment",
    "Variable",
    "condition_check",
    "condition_compiled",
    "variables_at",
]
