"""Conditions of policies: expressions in CEL over what is known at a point.

variables      what an expression may speak of, and where
lexing         what it does speak of, and how deeply
compiling      expressions checked, compiled and kept
moment         what is known at one firing
request_texts  the request's texts as they are asked for
word_search    words that are looked for in texts
context        all of it as values for CEL
"""

from hooks.conditions.compiling import (
    MAX_CONDITION_CHARS,
    Condition,
    ConditionProblem,
    Needs,
    condition_check,
    condition_compiled,
    conditions_joined,
)
from hooks.conditions.context import ConditionFailed, Context
from hooks.conditions.moment import Moment
from hooks.conditions.request_texts import MAX_TEXT_BYTES, RequestTexts
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
    "Needs",
    "RequestTexts",
    "Variable",
    "condition_check",
    "condition_compiled",
    "conditions_joined",
    "variables_at",
]
