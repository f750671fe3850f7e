"""Expressions checked when they are written, compiled once, and kept.

CEL (https://cel.dev) has no loops without an end, but what it does with long lists and long texts adds up.
So an expression is at most MAX_CONDITION_CHARS long, nests at most MAX_DEPTH brackets and MAX_LOOP_DEPTH
comprehensions, and makes no new texts in these; the binding ends an evaluation that takes too many turns (an
error, so a failure of its policy), and texts are bounded where they are handed over
(hooks/conditions/context.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any

from cel_expr_python import cel

from hooks.conditions.lexing import LOOPS, Outline, line_and_column, outline_of, tokens_of
from hooks.conditions.variables import VARIABLE_BY_NAME, cel_type, variables_at
from hooks.conditions.word_search import (
    ANSWERS,
    FUNCTION,
    PatternSearch,
    Search,
    SearchMisspelt,
    searches_taken_out,
)
from hooks.contracts.points import HookPoint

MAX_CONDITION_CHARS = 4096
MAX_DEPTH = 24
MAX_LOOP_DEPTH = 2
MAX_SUMS = 8
# Texts of which somebody else says how large they are, and what can be asked of them without making others.
LARGE_TEXTS = frozenset(
    name
    for name, variable in VARIABLE_BY_NAME.items()
    if variable.cel_type == "string" and name.startswith(("text.", "output.", "outcome."))
)
ASKED_OF_TEXT = frozenset({"contains", "startsWith", "endsWith", "size"})
COSTLY = frozenset({"matches", *LOOPS})

_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_PROBLEM = re.compile(
    r"ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?=\n ?\||\nERROR: <input>|\s*\[[A-Z_]+\]\s*\Z|\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class ConditionProblem:
    """Why an expression is not taken. `line` and `column` are from 1; 0 where it is about all of it."""

    message: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Needs:
    """What is to be known to evaluate: names of variables, and words that are looked for in texts."""

    variables: frozenset[str] = frozenset()
    searches: frozenset[Search] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.variables | other.variables, self.searches | other.searches)

    def __bool__(self) -> bool:
        return bool(self.variables or self.searches)


@dataclass(frozen=True, slots=True)
class Condition:
    """`text` is what is evaluated: as it was written, but for its searches, which stand there as answers."""

    text: str
    point: HookPoint
    needs: Needs
    expression: Any = field(repr=False, compare=False)
    is_costly: bool = False
    """It has patterns or comprehensions: what it takes depends on what they go through."""
    loop_texts: frozenset[str] = frozenset()
    """Texts that are asked again and again."""


class ConditionInvalid(Exception):
    """An expression that would not have been saved today."""

    def __init__(self, problems: tuple[ConditionProblem, ...]) -> None:
        super().__init__("; ".join([problem.message for problem in problems]))
        self.problems = problems


def condition_check(text: str, point: HookPoint) -> tuple[ConditionProblem, ...]:
    """What is wrong with a condition for this point; nothing, if it can be saved. Empty is always true."""
    if not text.strip():
        return ()
    made = _compiled(text, point)
    return () if isinstance(made, Condition) else made


def condition_compiled(text: str, point: HookPoint) -> Condition | None:
    """None for an empty one. Raises ConditionInvalid."""
    if not text.strip():
        return None
    made = _compiled(text, point)
    if isinstance(made, Condition):
        return made
    raise ConditionInvalid(made)


def conditions_joined(conditions: Sequence[Condition]) -> Condition | None:
    """One that is false exactly where all of these are; where one of them is true it is true, otherwise an
    error of one is its error. Not empty, all of one point. None where that makes no expression."""
    # A comment at the end of one of them ends with its line.
    text = " || ".join([f"({condition.text}\n)" for condition in conditions])
    point = conditions[0].point
    is_costly = any(one.is_costly for one in conditions)
    loop_texts = frozenset().union(*[one.loop_texts for one in conditions])
    try:
        expression = environment(point).compile(text)
    except RuntimeError:
        return None
    needs = reduce(or_, [one.needs for one in conditions])
    return Condition(text, point, needs, expression, is_costly, loop_texts)


@cache
def environment(point: HookPoint) -> cel.Env:
    """What an expression can name at this point, once its searches have been taken out."""
    answers = cel.Type.Map(cel.Type.STRING, cel.Type.BOOL)
    return cel.NewEnv(variables={**_types(point), ANSWERS: answers})


@cache
def _written_environment(point: HookPoint) -> cel.Env:
    """What can be named in what somebody writes; each point its own, so that an expression that reads what
    is not known there does not compile."""
    string, words = cel.Type.STRING, cel.Type.List(cel.Type.STRING)
    overloads = [
        cel.Overload(f"{FUNCTION}_{name}", cel.Type.BOOL, [string, kind], False)
        for name, kind in (("word", string), ("words", words))
    ]
    return cel.NewEnv(variables=_types(point), functions=[cel.FunctionDecl(FUNCTION, overloads)])


def _types(point: HookPoint) -> dict[str, cel.Type]:
    return {name: cel_type(variable.cel_type) for name, variable in variables_at(point).items()}


@lru_cache(maxsize=1024)
def _compiled(text: str, point: HookPoint) -> Condition | tuple[ConditionProblem, ...]:
    if len(text) > MAX_CONDITION_CHARS:
        return (ConditionProblem(f"It is longer than {MAX_CONDITION_CHARS} characters."),)
    if _UNREADABLE.search(text):
        # The binding ends texts at a NUL: what stands behind it would be passed over.
        return (ConditionProblem("It holds a NUL, or half of a surrogate pair."),)
    outline = outline_of(text)
    if outline.depth > MAX_DEPTH:
        return (ConditionProblem(f"Brackets nest more than {MAX_DEPTH} deep."),)
    if outline.loop_depth > MAX_LOOP_DEPTH:
        return (ConditionProblem(f"Comprehensions nest more than {MAX_LOOP_DEPTH} deep."),)
    try:
        kind = _written_environment(point).compile(text).return_type()
    except RuntimeError as error:
        return _problems(str(error), outline, point)
    if kind != cel.Type.BOOL:
        return (ConditionProblem(f"It has to be true or false; this is of type {kind.name().lower()}."),)
    known = variables_at(point)
    try:
        evaluated, searches = searches_taken_out(text, known)
    except SearchMisspelt as error:
        return (ConditionProblem(f"{error.message}.", *line_and_column(text, error.place)),)
    # Searches are answered before: what they read counts for nothing here.
    evaluated_outline = outline_of(evaluated) if searches else outline
    if growth := _growth(evaluated_outline):
        return (growth,)
    names = frozenset(name for path, _, _ in evaluated_outline.paths if (name := _variable(path, known)))
    try:
        expression = environment(point).compile(evaluated)
    except RuntimeError:
        return (ConditionProblem("It nests too deeply, or cannot be read."),)
    is_costly = any(token.kind == "name" and token.text in COSTLY for token in tokens_of(evaluated)) or any(
        isinstance(search, PatternSearch) for search in searches
    )
    loop_names = {_variable(path, known) for path, _, _ in evaluated_outline.loop_paths}
    loop_texts = frozenset(name for name in loop_names if name in LARGE_TEXTS)
    needs = Needs(names, frozenset(searches))
    condition = Condition(evaluated, point, needs, expression, is_costly, loop_texts)
    problem = _tried(condition)
    return (problem,) if problem else condition


def _growth(outline: Outline) -> ConditionProblem | None:
    """Texts can be large, and what is made of them is kept until the evaluation ends: nothing may be made of
    them again and again."""
    if len(outline.sums) > MAX_SUMS:
        return ConditionProblem(f"It adds (+) more than {MAX_SUMS} times.", *outline.sums[MAX_SUMS])
    if outline.loop_sums:
        return ConditionProblem("Inside of a comprehension nothing is added (+).", *outline.loop_sums[0])
    for path, line, column in outline.loop_paths:
        name = _variable(path, VARIABLE_BY_NAME)
        if name in LARGE_TEXTS and path.removeprefix(f"{name}.") not in ASKED_OF_TEXT:
            asked = ", ".join(sorted(ASKED_OF_TEXT))
            message = f"Inside of a comprehension {name} can only be asked ({asked})."
            return ConditionProblem(message, line, column)
    for path, line, column in outline.paths:
        name, _, method = path.rpartition(".")
        if method == "matches" and name in LARGE_TEXTS:
            return ConditionProblem(f"{name}.matches takes a pattern in quotes.", line, column)
    return None


def _variable(path: str, known: Any) -> str | None:
    """The longest beginning of a path that names a variable."""
    while path and path not in known:
        path = path.rpartition(".")[0]
    return path or None


def _problems(message: str, outline: Outline, point: HookPoint) -> tuple[ConditionProblem, ...]:
    places = {
        (line, column): name
        for path, line, column in outline.paths
        if (name := _variable(path, VARIABLE_BY_NAME)) and name not in variables_at(point)
    }
    if places:
        return tuple(
            ConditionProblem(f"{name} is not known at {point.value}.", line, column)
            for (line, column), name in sorted(places.items())
        )
    found = dict.fromkeys(
        ConditionProblem(_said(what), max(0, int(line)), max(0, int(column)))
        for line, column, what in _PROBLEM.findall(message)
    )
    return tuple(found) or (ConditionProblem("It nests too deeply, or cannot be read."),)


def _said(message: str) -> str:
    message = message.strip().replace(" (in container '')", "").removesuffix(".")
    if "(double, int)" in message or "(int, double)" in message:
        message += "; a double is compared with 3.0, not with 3"
    return message[:300] + "."


def _tried(condition: Condition) -> ConditionProblem | None:
    """Patterns are read when they are first used: an expression with a wrong one would fail each time."""
    nothing: dict[str, Any] = {
        "string": "", "bool": False, "int": 0, "double": 0.0, "list(string)": [],
        "map(string, string)": {}, "map(string, dyn)": {},
    }  # fmt: skip
    known = variables_at(condition.point)
    values = {name: nothing[known[name].cel_type] for name in condition.needs.variables}
    values[ANSWERS] = {search.key: False for search in condition.needs.searches}
    try:
        value = condition.expression.eval(environment(condition.point).Activation(values)).value()
    except RuntimeError as error:
        return ConditionProblem(f"It cannot be evaluated: {_said(str(error))}")
    said = str(value)
    if not isinstance(value, bool) and "invalid regular expression" in said:
        return ConditionProblem(_said(said[said.index("invalid regular expression") :]))
    # Any other error (a name that is in no map, a division) may be right for a request that has something.
    return None
