"""Which names an expression uses and how deeply it nests, without its tree (the binding shows none).

Only expressions that compile are asked, so that nothing has to be refused here; a name too many costs a
value that nobody reads, and does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*)
    |(?P<text>[bB]?[rR][bB]?(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<sign>\S)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
LOOPS = frozenset({"all", "exists", "exists_one", "map", "filter"})

Path = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Outline:
    """`paths` are names with all that hangs on them by dots, with line and column (from 1) of each.
    `depth` counts brackets, `loop_depth` comprehensions inside of each other. `loop_paths` are those inside
    of comprehensions; `sums` and `loop_sums` the places (line and column) of signs of addition."""

    paths: tuple[Path, ...]
    depth: int
    loop_depth: int
    loop_paths: tuple[Path, ...] = ()
    sums: tuple[tuple[int, int], ...] = ()
    loop_sums: tuple[tuple[int, int], ...] = ()


def outline_of(expression: str) -> Outline:
    paths: list[Path] = []
    loop_paths: list[Path] = []
    sums: list[tuple[int, int]] = []
    loop_sums: list[tuple[int, int]] = []
    brackets: list[bool] = []
    depth = loop_depth = 0
    path = ""
    place = 0
    ends_with_dot = False

    def end_path() -> None:
        if path and path[0] != ".":
            paths.append((path, *line_and_column(expression, place)))
            if any(brackets):
                loop_paths.append(paths[-1])

    for kind, word, start in tokens_of(expression):
        if kind == "name" and path and ends_with_dot:
            path += f".{word}"
            ends_with_dot = False
            continue
        if kind == "sign" and word == "." and path and not ends_with_dot:
            ends_with_dot = True
            continue
        if kind == "sign" and word == "+":
            sums.append(line_and_column(expression, start))
            if any(brackets):
                loop_sums.append(sums[-1])
        # Before a bracket closes: it is inside.
        end_path()
        if word in ("(", "[", "{"):
            brackets.append(word == "(" and path.rpartition(".")[2] in LOOPS and "." in path)
            depth = max(depth, len(brackets))
            loop_depth = max(loop_depth, sum(brackets))
        elif word in (")", "]", "}") and brackets:
            brackets.pop()
        # What follows a bracket or a text by a dot is a member of what no name is: `(a).map`.
        path = ""
        ends_with_dot = False
        if kind == "name":
            path, place = word, start
        elif word in (")", "]", "}") or kind == "text":
            path = "."
    end_path()
    return Outline(tuple(paths), depth, loop_depth, tuple(loop_paths), tuple(sums), tuple(loop_sums))


class Token(NamedTuple):
    """`kind` is text (in quotes), name, number or sign; `start` its place."""

    kind: str
    text: str
    start: int


def tokens_of(expression: str) -> Iterator[Token]:
    """Without comments."""
    for match in _TOKEN.finditer(expression):
        kind = match.lastgroup or ""
        if kind != "comment":
            yield Token(kind, match.group(), match.start())


def line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - (text.rfind("\n", 0, place) + 1) + 1
