"""What is refused before anybody tries to compile it, with a sentence that says why.

These bounds keep honest mistakes cheap and C stacks safe; what is costly in subtler ways is found by
grammar_trial.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.domain.constraint import ConstraintRefused

MAX_SCHEMA_BYTES = 1024 * 1024
MAX_REGEX_CHARS = 8192
MAX_GRAMMAR_CHARS = 64 * 1024
MAX_CHOICE_CHARS = 256 * 1024
# llguidance's reader of JSON gives up at 128.
MAX_DEPTH = 100
# More do not fit in MAX_SCHEMA_BYTES; counted, because that is known only when it is written.
MAX_VALUES = 500_000
# The time to compile rises with the square of an object's optional properties (1,000: 0.2 s).
MAX_PROPERTIES = 1000
# A mask inside a literal costs time in proportion to its length.
MAX_LITERAL_CHARS = 4096
MAX_TAGS = 512


def check_schema(schema: Mapping[str, Any] | bool) -> None:
    """Depth, literals and properties of a JSON schema. Iterative: it may be nested as deep as it likes."""
    if schema is False:
        raise ConstraintRefused("Nothing fits the schema 'false'.")
    pending: list[tuple[object, str, int]] = [(schema, "", 1)]
    num_properties = num_values = 0
    while pending:
        value, key, depth = pending.pop()
        num_values += 1
        if num_values > MAX_VALUES:
            raise ConstraintRefused(f"It has more than {MAX_VALUES} values in it.")
        if depth > MAX_DEPTH:
            raise ConstraintRefused(f"It is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, Mapping):
            if key == "properties":
                num_properties = max(num_properties, len(value))
            for name, member in value.items():
                if len(name) > MAX_LITERAL_CHARS:
                    raise _too_long("name", MAX_LITERAL_CHARS)
                pending.append((member, name, depth + 1))
        elif isinstance(value, list | tuple):
            pending.extend((member, key, depth + 1) for member in value)
        elif isinstance(value, str) and key == "pattern":
            check_regex(value)
        elif isinstance(value, str) and key in ("enum", "const") and len(value) > MAX_LITERAL_CHARS:
            raise _too_long("value", MAX_LITERAL_CHARS)
    if num_properties > MAX_PROPERTIES:
        raise ConstraintRefused(f"An object has more than {MAX_PROPERTIES} properties.")


def check_regex(pattern: str) -> None:
    if not pattern:
        raise ConstraintRefused("The regular expression is empty.")
    if len(pattern) > MAX_REGEX_CHARS:
        raise _too_long("regular expression", MAX_REGEX_CHARS)


def check_choice(options: tuple[str, ...]) -> None:
    if not options:
        raise ConstraintRefused("There is nothing to choose from.")
    if max(map(len, options)) > MAX_LITERAL_CHARS:
        raise _too_long("option", MAX_LITERAL_CHARS)
    if sum(map(len, options)) > MAX_CHOICE_CHARS:
        raise ConstraintRefused(f"All options together have more than {MAX_CHOICE_CHARS} characters.")


def check_grammar_text(text: str) -> None:
    if not text.strip():
        raise ConstraintRefused("The grammar is empty.")
    if len(text) > MAX_GRAMMAR_CHARS:
        raise _too_long("grammar", MAX_GRAMMAR_CHARS)


def _too_long(what: str, max_chars: int) -> ConstraintRefused:
    return ConstraintRefused(f"A {what} has more than {max_chars} characters.")
