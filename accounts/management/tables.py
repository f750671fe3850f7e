"""Tables on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def print_table(write: Callable[[str], Any], columns: tuple[str, ...], rows: list[list[str]]) -> None:
    lines = [list(columns), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
