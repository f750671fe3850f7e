"""What a condition may speak of: names, CEL types, the points at which they are known, and what they mean.
docs/hooks.md shows this table; `value` reads one from a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

from cel_expr_python import cel

from hooks.conditions.moment import Moment
from hooks.contracts.points import HookPoint
from hooks.contracts.view import ParameterValue

_EVERYWHERE = frozenset(HookPoint)
_OF_A_CHOICE = frozenset({HookPoint.AFTER_PREFILL, HookPoint.MID_GENERATION, HookPoint.OUTPUT})
_PREFILL = frozenset({HookPoint.AFTER_PREFILL})
_WINDOW = frozenset({HookPoint.MID_GENERATION})
_OUTPUT = frozenset({HookPoint.OUTPUT})
_TERMINAL = frozenset({HookPoint.TERMINAL})

# One thing under the names that the wires have for it; the first that was sent is read.
OUTPUT_LIMIT_NAMES = ("max_completion_tokens", "max_output_tokens", "max_tokens")
MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Variable:
    """`cel_type` is the type as CEL writes it."""

    name: str
    cel_type: str
    meaning: str
    value: Callable[[Moment], Any]
    points: frozenset[HookPoint] = _EVERYWHERE


def _whole(moment: Moment, *names: str, default: int = 0) -> int:
    value = _first(moment, names)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return default
    return int(max(-MAX_INT64, min(value, MAX_INT64)))


def _number(moment: Moment, name: str) -> float:
    value = _first(moment, (name,))
    return -1.0 if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _first(moment: Moment, names: tuple[str, ...]) -> ParameterValue:
    given = moment.request.parameters
    return next((given[name] for name in names if given.get(name) is not None), None)


def _parameters(moment: Moment) -> dict[str, Any]:
    return {
        name: max(-MAX_INT64, min(value, MAX_INT64)) if type(value) is int else value
        for name, value in moment.request.parameters.items()
    }


def _window(name: str) -> Callable[[Moment], Any]:
    return lambda moment: getattr(moment.window, name)


def _of_window(name: str, cel_type: str, meaning: str) -> Variable:
    return Variable(f"signals.{name}", cel_type, meaning, _window(name), _WINDOW)


VARIABLES: tuple[Variable, ...] = (
    Variable("model", "string", "the model's id, aliases resolved", lambda m: m.model),
    Variable("principal.user", "string", "the user's name", lambda m: m.caller.username),
    Variable("principal.team", "string", "the team's name; empty without", lambda m: m.caller.team_name),
    Variable("principal.key", "string", "the API key's name", lambda m: m.caller.key_name),
    Variable(
        "request.endpoint",
        "string",
        "chat.completions, completions, responses or messages",
        lambda m: m.request.endpoint,
    ),
    Variable("request.model", "string", "the model's name as it was sent", lambda m: m.request.model),
    Variable("request.stream", "bool", "whether the answer streams", lambda m: m.request.is_stream),
    Variable("request.opts_in", "bool", "skippy_hooks is true", lambda m: m.request.opts_in),
    Variable("request.end_user", "string", "the user field; empty without", lambda m: m.request.end_user),
    Variable("request.n", "int", "answers asked for; 1 where not sent", lambda m: _whole(m, "n", default=1)),
    Variable(
        "request.max_tokens",
        "int",
        "the limit of the answer under any of its names; 0 where not sent",
        lambda m: _whole(m, *OUTPUT_LIMIT_NAMES),
    ),
    Variable("request.temperature", "double", "-1.0 where not sent", lambda m: _number(m, "temperature")),
    Variable("request.top_p", "double", "-1.0 where not sent", lambda m: _number(m, "top_p")),
    Variable(
        "request.parameters",
        "map(string, dyn)",
        "numbers, words and flags of the body that were sent, by name",
        _parameters,
    ),
    Variable("request.tools", "list(string)", "names of the tools", lambda m: list(m.request.tool_names)),
    Variable("request.fields", "list(string)", "all names in the body", lambda m: sorted(m.request.fields)),
    Variable(
        "request.metadata", "map(string, string)", "the metadata field", lambda m: dict(m.request.metadata)
    ),
    Variable("request.num_messages", "int", "turns", lambda m: len(m.request.messages)),
    Variable("request.num_chars", "int", "characters of text.input", lambda m: len(m.texts.input_text)),
    Variable(
        "request.num_token_prompts",
        "int",
        "prompts that came as token ids",
        lambda m: m.request.prompts.count(None),
    ),
    Variable("request.num_media", "int", "pictures and sounds", lambda m: m.texts.num_media),
    Variable(
        "text.input",
        "string",
        "all turns, thinking, calls' arguments, prompts, and what else a model may read",
        lambda m: m.texts.input_text,
    ),
    Variable("text.user", "string", "what users wrote, prompts included", lambda m: m.texts.user_text),
    Variable("text.last_user", "string", "the last user's turn, or prompt", lambda m: m.texts.last_user_text),
    Variable("text.system", "string", "system and developer turns", lambda m: m.texts.system_text),
    Variable("text.folded", "string", "text.input, folded", lambda m: m.texts.folded_input),
    Variable("text.folded_user", "string", "text.user, folded", lambda m: m.texts.folded_user),
    Variable("text.folded_last_user", "string", "text.last_user, folded", lambda m: m.texts.folded_last_user),
    Variable("choice", "int", "which of n answers", lambda m: m.choice or 0, _OF_A_CHOICE),
    Variable(
        "signals.entropy",
        "double",
        "of the first token, in nats",
        lambda m: m.first_token.entropy if m.first_token else 0.0,
        _PREFILL,
    ),
    Variable(
        "signals.margin",
        "double",
        "how much likelier the first token is than the second, as a natural logarithm",
        lambda m: m.first_token.margin if m.first_token else 0.0,
        _PREFILL,
    ),
    _of_window("num_decoded", "int", "tokens of the answer so far"),
    _of_window("num_tokens", "int", "tokens in the window"),
    _of_window("mean_entropy", "double", "over the window, in nats"),
    _of_window("max_entropy", "double", "over the window, in nats"),
    _of_window("mean_margin", "double", "over the window"),
    _of_window("min_margin", "double", "over the window"),
    _of_window("num_high_entropy", "int", "tokens of the window above the rule's bound"),
    _of_window("num_repetitions", "int", "tokens of the window that equal the one before"),
    Variable(
        "output.content",
        "string",
        "what is about to be released: all of it, or a stream's held-back part",
        lambda m: m.output.content if m.output else "",
        _OUTPUT,
    ),
    Variable(
        "output.reasoning",
        "string",
        "the same of the thinking",
        lambda m: m.output.reasoning if m.output else "",
        _OUTPUT,
    ),
    Variable(
        "output.arguments",
        "string",
        "calls' arguments, a line each: with their escapes resolved, and those that had any as written, too",
        lambda m: m.arguments_text,
        _OUTPUT,
    ),
    Variable(
        "output.tools",
        "list(string)",
        "names of the functions whose calls begin here",
        lambda m: list(m.output.tool_names.values()) if m.output else [],
        _OUTPUT,
    ),
    Variable("output.folded", "string", "all of these, folded", lambda m: m.folded_output, _OUTPUT),
    Variable(
        "output.num_released_chars",
        "int",
        "characters of content that went out before",
        lambda m: m.output.num_released_chars if m.output else 0,
        _OUTPUT,
    ),
    Variable(
        "output.is_last", "bool", "nothing follows", lambda m: bool(m.output and m.output.is_last), _OUTPUT
    ),
    Variable(
        "outcome.kind",
        "string",
        "success, stream_completed, error, denied or cancelled",
        lambda m: m.outcome.kind if m.outcome else "",
        _TERMINAL,
    ),
    Variable(
        "outcome.status", "int", "the HTTP status", lambda m: m.outcome.status if m.outcome else 0, _TERMINAL
    ),
    Variable(
        "outcome.text",
        "string",
        "a whole answer's content, choices in lines",
        lambda m: "\n".join(m.outcome.texts) if m.outcome else "",
        _TERMINAL,
    ),
)
VARIABLE_BY_NAME: Mapping[str, Variable] = {variable.name: variable for variable in VARIABLES}


@cache
def variables_at(point: HookPoint) -> Mapping[str, Variable]:
    return {variable.name: variable for variable in VARIABLES if point in variable.points}


def cel_type(name: str) -> cel.Type:
    return _CEL_TYPES[name]


_CEL_TYPES = {
    "string": cel.Type.STRING,
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "double": cel.Type.DOUBLE,
    "list(string)": cel.Type.List(cel.Type.STRING),
    "map(string, string)": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "map(string, dyn)": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}
