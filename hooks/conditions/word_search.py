"""What a condition looks for in a text: `has_word(text.input, ["a", "b c"])`, words in whatever form either
is written, and `text.input.matches("a+")`, a pattern.

The binding could call a function of ours, but keeps each text that it hands over for good. So a search is
taken out of the expression when that is compiled, done where values are made, and its answer put in its
place. Patterns are, too: in the binding nobody else runs while it looks, which may be for seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cel_expr_python import cel

from hooks.conditions.lexing import Token, tokens_of
from hooks.conditions.moment import Moment
from hooks.conditions.request_texts import MAX_TEXT_BYTES, RequestTexts, TextTooLarge, folded_within_bounds
from hooks.conditions.variables import Variable
from hooks.matching import has_needle, needle_of
from hooks.matching.masks import MAX_PATTERN_MEMORY_BYTES
from hooks.matching.patterns import pattern_compiled, searchable

FUNCTION = "has_word"
# What answers are read from; no expression can name it that was written by anybody.
ANSWERS = "__words"
# Folded once, whether a condition names the folded text or the other one.
_OF_REQUEST: Mapping[str, Callable[[RequestTexts], str]] = {
    "text.input": lambda texts: texts.folded_input,
    "text.folded": lambda texts: texts.folded_input,
    "text.user": lambda texts: texts.folded_user,
    "text.folded_user": lambda texts: texts.folded_user,
    "text.last_user": lambda texts: texts.folded_last_user,
    "text.folded_last_user": lambda texts: texts.folded_last_user,
    "text.system": lambda texts: texts.folded_system,
}
_END_OF_LIST = Token("sign", "]", 0)
_USAGE = 'It is written has_word(text.input, "word") or has_word(text.input, ["a word", "another"])'


class SearchMisspelt(Exception):
    """`place` is where in the expression."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


@dataclass(frozen=True, slots=True)
class WordSearch:
    """`key` is what its answer is called."""

    variable: Variable
    needles: tuple[str, ...]
    key: str

    def answer(self, moment: Moment) -> bool:
        """Raises TextTooLarge. Of the request's texts it is looked for once, however often it is asked."""
        reads = _OF_REQUEST.get(self.variable.name)
        if reads is None:
            return self._is_in(_folded(self.variable, moment))
        known = moment.texts.answers.get(self.key)
        if known is None:
            known = moment.texts.answers[self.key] = self._is_in(reads(moment.texts))
        return known

    def _is_in(self, text: str) -> bool:
        return any(has_needle(text, needle) for needle in self.needles)


@dataclass(frozen=True, slots=True)
class PatternSearch:
    """The same for a pattern (RE2), as CEL has it: anywhere in the text, as it is."""

    variable: Variable
    pattern: Any = field(compare=False)
    key: str

    def answer(self, moment: Moment) -> bool:
        """Raises TextTooLarge. Others run meanwhile."""
        text = self.variable.value(moment)
        if len(text) > MAX_TEXT_BYTES:
            raise TextTooLarge
        return self.pattern.search(searchable(text)) is not None


Search = WordSearch | PatternSearch


def _folded(variable: Variable, moment: Moment) -> str:
    if variable.name == "output.folded":
        return moment.folded_output
    return folded_within_bounds(variable.value(moment))


def searches_taken_out(expression: str, known: Mapping[str, Variable]) -> tuple[str, tuple[Search, ...]]:
    """The expression with its searches' answers in their places. `known` are the variables at its point.
    Raises SearchMisspelt."""
    parts: list[str] = []
    searches: list[Search] = []
    place = 0
    tokens = tuple(tokens_of(expression))
    for index, token in enumerate(tokens):
        is_member = index > 0 and tokens[index - 1].text == "."
        if token.kind != "name" or is_member:
            continue
        found: tuple[Search, int] | None = (
            _read(tokens[index:], known) if token.text == FUNCTION else _pattern(tokens, index, known)
        )
        if found is None:
            continue
        search, end = found
        searches.append(search)
        parts += (expression[place : token.start], f'{ANSWERS}["{search.key}"]')
        place = end
    return "".join([*parts, expression[place:]]), tuple(searches)


def _pattern(
    tokens: Sequence[Token], index: int, known: Mapping[str, Variable]
) -> tuple[PatternSearch, int] | None:
    """A variable's `.matches("...")` with a pattern in quotes; with where it ends. None for anything else."""
    name, place = tokens[index].text, index + 1
    while place + 1 < len(tokens) and tokens[place].text == "." and tokens[place + 1].text != "matches":
        name += f".{tokens[place + 1].text}"
        place += 2
    call = tokens[place : place + 5]
    variable = known.get(name)
    if variable is None or variable.cel_type != "string" or len(call) < 5 or call[3].kind != "text":
        return None
    if [call[at].text for at in (0, 1, 2, 4)] != [".", "matches", "(", ")"]:
        return None
    start = call[3].start
    written = _literal(call[3], start)
    try:
        pattern = pattern_compiled(written, max_memory_bytes=MAX_PATTERN_MEMORY_BYTES)
    except Exception as error:
        raise SearchMisspelt(f"invalid regular expression: {_said(error)}", start) from None
    digest = hashlib.sha256(repr((name, "matches", written)).encode()).hexdigest()[:24]
    return PatternSearch(variable, pattern, digest), call[4].start + 1


def _said(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return (said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said))[:200]


def _read(tokens: Sequence[Token], known: Mapping[str, Variable]) -> tuple[WordSearch, int]:
    """From `has_word` on; with where the search ends."""
    rest = iter(tokens[1:])
    start = tokens[0].start

    def following(*texts: str) -> Token:
        token = next(rest, None)
        if token is None or (texts and token.text not in texts):
            raise SearchMisspelt(_USAGE, start)
        return token

    following("(")
    name = ""
    token = following()
    while token.text != ",":
        name += token.text
        token = following()
    variable = known.get(name)
    if variable is None or variable.cel_type != "string":
        raise SearchMisspelt(f"{_USAGE}; {name[:64]} is no text here", start)
    words: list[str] = []
    token = following()
    if token.text == "[":
        token = following()
        while token.text != "]":
            words.append(_literal(token, start))
            # CEL allows a comma behind the last one.
            token = following() if following(",", "]").text == "," else _END_OF_LIST
    else:
        words.append(_literal(token, start))
    end = following(")")
    if not words:
        raise SearchMisspelt(_USAGE, start)
    needles = tuple(needle_of(word) for word in words)
    if not all(needles):
        raise SearchMisspelt("A word of has_word has nothing that could be seen", start)
    digest = hashlib.sha256(repr((name, needles)).encode()).hexdigest()[:24]
    return WordSearch(variable, needles, digest), end.start + 1


def _literal(token: Token, start: int) -> str:
    """What a text in quotes says, in CEL's own words."""
    if token.kind != "text":
        raise SearchMisspelt(_USAGE, start)
    try:
        value = cel.NewEnv().compile(token.text).eval().value()
    except RuntimeError:
        value = None
    if not isinstance(value, str):
        raise SearchMisspelt(_USAGE, start)
    return value
