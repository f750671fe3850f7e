"""The page of rules beside this names tests that there are."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

TESTS = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("README.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| rule |")]
IDS = re.findall(r"`([^`]+::[^`]+)`", PAGE)


@lru_cache
def names_in(path: Path) -> frozenset[str]:
    """What pytest collects by name: functions, and classes that are made or assigned."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update([target.id for target in node.targets if isinstance(target, ast.Name)])
    return frozenset(names)


def test_each_test_on_the_page_is_there() -> None:
    found = [one.split("::") for one in IDS]
    assert [(file, name) for file, name in found if name not in names_in(TESTS / file)] == []
    assert all(name.lower().startswith("test") for _, name in found)


def test_each_rule_on_the_page_has_a_test_or_a_place_that_has() -> None:
    assert len(ROWS) > 50
    assert [row for row in ROWS if "::" not in row and "](#" not in row] == []
