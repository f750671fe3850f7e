"""From a constraint as it was asked for to the grammar that llguidance reads.

A grammar is JSON: `{"grammars": [{"name", "json_schema" | "lark_grammar"}, …]}`, the first one being where
it starts; the others are referred to as `@name`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from inference.domain.constraint import (
    AnyJson,
    Choice,
    ConstraintRefused,
    ConstraintSpec,
    Grammar,
    InOrder,
    JsonSchema,
    Regex,
    TaggedText,
)
from inference.engine.llama.constraint_bounds import (
    MAX_SCHEMA_BYTES,
    check_choice,
    check_grammar_text,
    check_regex,
    check_schema,
)
from inference.engine.llama.tagged_text_grammar import TaggedTextRules, between_slashes

# JSON as json.dumps writes it, or without its spaces. Nothing else: a model that may write white space
# may do so until its tokens run out. (Separators are regular expressions.)
_JSON_OPTIONS = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
    # These may not be turned on from inside a schema: they would let through what does not fit it.
    "lenient": False,
    "coerce_one_of": False,
}
# A temperature of a rule's own: llguidance leaves it to the sampler, and ours would ignore it.
_TEMPERATURE = re.compile(r"\[[^\[\]\n]*\btemperature[ \t]*=")


class GrammarWriter:
    """Writes the grammar of one constraint. `control_tokens` are ids by text; those of
    `end_token_ids` end an answer; `lark_of` turns GBNF into Lark's notation."""

    def __init__(
        self,
        control_tokens: Mapping[str, int],
        end_token_ids: frozenset[int],
        *,
        lark_of: Callable[[str], str],
    ) -> None:
        self._lark_of = lark_of
        self._control_tokens = control_tokens
        self._end_token_ids = end_token_ids
        self._grammars: list[dict[str, Any]] = []

    def write(self, spec: ConstraintSpec) -> str:
        """Raises ConstraintRefused for what is too large or cannot be said."""
        self.add(spec)
        text = json.dumps({"grammars": self._grammars})
        if len(text) > MAX_SCHEMA_BYTES:
            raise ConstraintRefused(f"It has more than {MAX_SCHEMA_BYTES} bytes.")
        return text

    def add(self, spec: ConstraintSpec) -> str:
        """Returns the name of a new grammar. One comes before its parts."""
        name = f"g{len(self._grammars)}"
        grammar: dict[str, Any] = {"name": name}
        self._grammars.append(grammar)
        match spec:
            case AnyJson():
                grammar["json_schema"] = _schema({"type": "object"})
            case JsonSchema(schema):
                check_schema(schema)
                grammar["json_schema"] = _schema(schema)
            case Regex(pattern):
                check_regex(pattern)
                grammar["lark_grammar"] = f"start: {_regex_terminal(pattern)}"
            case Choice(options):
                grammar["lark_grammar"] = _choice(options)
            case Grammar():
                grammar["lark_grammar"] = self._lark(spec)
            case TaggedText():
                rules = TaggedTextRules(self._control_tokens, self._end_token_ids, add_body=self.add)
                grammar["lark_grammar"] = rules.write(spec)
            case InOrder(parts):
                names = [f"@{self.add(part)}" for part in parts]
                grammar["lark_grammar"] = "start: " + (" ".join(names) or '""')
        return name

    def _lark(self, grammar: Grammar) -> str:
        check_grammar_text(grammar.text)
        text = self._lark_of(grammar.text) if grammar.is_gbnf else grammar.text
        if _TEMPERATURE.search(text):
            raise ConstraintRefused("A rule cannot have a 'temperature' of its own.")
        return text


def _schema(schema: Mapping[str, Any] | bool) -> dict[str, Any]:
    members = {} if isinstance(schema, bool) else schema
    return {**members, "x-guidance": _JSON_OPTIONS}


def _regex_terminal(pattern: str) -> str:
    """A regular expression that all of a text has to match, between slashes."""
    pattern = pattern.removeprefix("^")
    if pattern.endswith("$"):
        body = pattern[:-1]
        num_backslashes = len(body) - len(body.rstrip("\\"))
        pattern = pattern if num_backslashes % 2 else body
    return between_slashes(pattern or "()")


def _choice(options: tuple[str, ...]) -> str:
    check_choice(options)
    texts = [json.dumps(option) for option in options if option]
    if not texts:
        return 'start: ""'
    # As one terminal, in which the number of options costs nothing per token.
    return f"start: OPTION{'?' if '' in options else ''}\nOPTION: {' | '.join(texts)}"
