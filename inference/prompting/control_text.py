"""Keeps what people type from becoming control tokens.

A chat template writes the user's words and its own control texts (`<|im_end|>`) into one string,
and a tokenizer cannot tell who wrote which: `<|im_end|>` in a message ends the turn, and what
follows it speaks as the system. So each control text inside a caller's string is cut in two before
rendering, with a mark that no caller can know; the rendered text is taken apart at the marks and
the segments are tokenized one by one. None of them then holds a whole control text of the
caller's, while the template's own stay whole. Text without control texts gets no marks, and is
tokenized exactly as if none of this existed.

A control text can also arise where two strings meet ("<|im_" and "end|>"), so a string is cut at
its end where that end could be the beginning of one. Its start matters only if the template itself
ends a piece of text inside a control text (`'<|' + name`), which the template's literals tell.

The marks are letters and digits, so that they are the same in JSON: tool descriptions, schemas,
arguments and results are guarded string by string, however the template writes them.

The price: a template that itself looks for a control text in a message does not find it there. The
one that many look for, `</think>` in older answers, is looked for before (thinking_history.py).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from typing import Any

# Where strings meet, control texts are known by this many characters: no real one is longer.
_MAX_EDGE_CHARS = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of prompt to be tokenized alone. In a plain one, nothing is a control token. One with a
    `mark` has no text: the picture or sound of that mark stands there."""

    text: str
    is_plain: bool
    mark: str = ""


class ControlTexts:
    """The control texts of one vocabulary, ready for searching. Immutable; shared by all requests."""

    def __init__(self, texts: Iterable[str], template_literals: Iterable[str] = ()) -> None:
        """`texts` is Tokenizer.special_texts; for `template_literals` see `beside`."""
        known = sorted({text for text in texts if text})
        self._pattern = re.compile(_search_pattern(known)) if known else None
        self._of_one_char = frozenset(text for text in known if len(text) == 1)
        self._first_chars = frozenset(text[0] for text in known)
        sizes = {text: range(1, min(len(text), _MAX_EDGE_CHARS)) for text in known}
        self._beginnings = frozenset(text[:size] for text in known for size in sizes[text])
        self._endings = frozenset(text[-size:] for text in known for size in sizes[text])
        self._all = "\n".join(known)
        self._has_open_literals = any(self._ends_inside(literal) for literal in template_literals)

    def beside(self, template_literals: Iterable[str]) -> ControlTexts:
        """The same for texts in a template with these strings in its source."""
        other = copy(self)
        other._has_open_literals = any(self._ends_inside(literal) for literal in template_literals)
        return other

    def cuts(self, text: str) -> list[int]:
        """Positions in a caller's `text` at which to cut it, ascending; linear in its length."""
        if self._pattern is None or not text:
            return []
        if not self._has_open_literals and self._first_chars.isdisjoint(text):
            return []  # most texts, and nearly all strings of a schema
        # Behind the first character of each: strictly inside of it, and of all that overlap it.
        cuts = {match.end() for match in self._pattern.finditer(text)}
        if self._of_one_char:
            # One of a single character has no inside: it is set apart, and then read as plain.
            cuts |= {cut - 1 for cut in cuts if text[cut - 1] in self._of_one_char}
        # Templates trim: look at the edges as they are, and as they are then.
        core = text.strip()
        start = text.find(core)
        for end in {start + len(core), len(text)}:
            if self._ends_inside(text[:end]):
                cuts.add(end)
        if self._has_open_literals:
            if self._starts_inside(core):
                cuts.add(start)
            if start and self._starts_inside(text):
                cuts.add(0)
        return sorted(cuts)

    def _ends_inside(self, text: str) -> bool:
        """Whether `text` ends with the beginning of a control text, and not with a whole one."""
        tail = text[-_MAX_EDGE_CHARS:]
        if self._first_chars.isdisjoint(tail):
            return False
        return any(tail[start:] in self._beginnings for start in range(len(tail)))

    def _starts_inside(self, text: str) -> bool:
        """Whether `text` starts with the ending of a control text, or is a piece of one."""
        if not text:
            return False
        head = text[:_MAX_EDGE_CHARS]
        return any(head[:size] in self._endings for size in range(1, len(head) + 1)) or text in self._all


class PromptMarks:
    """The cuts of one rendering: `guard` every caller's string, render, then take `segments`."""

    def __init__(self, controls: ControlTexts) -> None:
        self._controls = controls
        # Lower-case letters and digits, so that no filter of a template (trim, tojson, escape)
        # changes it; 128 random bits of one rendering, so that nobody can write it.
        self._nonce = f"z{secrets.token_hex(16)}"
        self._is_used = False

    @property
    def end(self) -> str:
        """A mark that stands for the end of a text, where whoever renders looks for it; it is not one of
        those that `segments` takes out."""
        return f"{self._nonce}e"

    def guard(self, text: str) -> str:
        """`text` with a mark at each cut; `text` itself where there is none."""
        cuts = self._controls.cuts(text)
        if not cuts:
            return text
        self._is_used = True
        pieces: list[str] = []
        begin = 0
        for index, cut in enumerate(cuts):
            is_first, is_last = index == 0, index == len(cuts) - 1
            kind = "o" if is_first and is_last else "f" if is_first else "l" if is_last else "m"
            pieces += (text[begin:cut], self._nonce, kind)
            begin = cut
        pieces.append(text[begin:])
        return "".join(pieces)

    def guard_json(self, value: Any) -> Any:
        """A JSON value with every string in it guarded, names too. Not for values nested deeper than a
        request may be."""
        if isinstance(value, str):
            return self.guard(value)
        if isinstance(value, dict):
            return {self.guard(name): self.guard_json(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.guard_json(item) for item in value]
        return value

    def unmarked(self, text: str) -> str:
        """`text`, as it was rendered, without marks."""
        first, *others = text.split(self._nonce)
        return first + "".join([piece[1:] for piece in others])

    def segments(self, rendered: str) -> list[Segment]:
        """Apart at the marks. What lies between the first and the last cut of one string is the
        caller's alone and comes as one plain segment, so that a message full of control texts
        costs three calls of the tokenizer and not thousands."""
        if not self._is_used:
            return [Segment(rendered, is_plain=False)]
        # Split and not searched for: a pattern with the nonce in it would be compiled for each rendering.
        first, *others = rendered.split(self._nonce)
        texts, marks = [first, *[piece[1:] for piece in others]], ["o", *[piece[:1] for piece in others], "o"]
        segments: list[Segment] = []
        plain: list[str] = []
        for text, before, after in zip(texts, marks, marks[1:], strict=False):
            if before in "fm" and after in "ml":
                plain.append(text)
                continue
            if plain:
                segments.append(Segment("".join(plain), is_plain=True))
                plain = []
            segments.append(Segment(text, is_plain=False))
        if plain:
            segments.append(Segment("".join(plain), is_plain=True))
        return [segment for segment in segments if segment.text]


def _search_pattern(texts: Sequence[str]) -> str:
    """A pattern that matches one character wherever one of `texts` begins.

    Python's `re` tries alternatives one by one, and vocabularies reserve thousands of control
    tokens: as a tree, only what still fits is tried. `texts` are sorted, distinct, not empty.
    """
    branches = []
    for first, group in groupby(texts, key=lambda text: text[0]):
        rest = [text[1:] for text in group]
        branches.append(re.escape(first) + ("" if "" in rest else f"(?={_tree(rest)})"))
    return "|".join(branches)


def _tree(texts: Sequence[str]) -> str:
    branches = []
    for _, group in groupby(texts, key=lambda text: text[0]):
        members = list(group)
        shared = _shared_beginning(members[0], members[-1])  # sorted: no two differ more
        rest = [text[len(shared) :] for text in members]
        branches.append(re.escape(shared) + ("" if "" in rest else _tree(rest)))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _shared_beginning(one: str, other: str) -> str:
    size = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        size += 1
    return one[:size]
