from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from skippy_site.backup.making import remove_older
from skippy_site.supervisor.console import Console


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("num_kept", "days"), [(1, [4]), (2, [3, 4]), (9, [1, 2, 3, 4])])
def test_older_ones_go_and_files_of_others_stay(tmp_path: Path, num_kept: int, days: list[int]) -> None:
    for day in range(1, 5):
        (tmp_path / f"skippy-2026110{day}-030000.tar").touch()
    (tmp_path / "skippy-before-the-move.tar").touch()
    (tmp_path / "a.tar.partial").touch()
    said = io.StringIO()
    remove_older(tmp_path / "skippy-20261104-030000.tar", num_kept, Console(said))
    kept = [f"skippy-2026110{day}-030000.tar" for day in days]
    assert names(tmp_path) == sorted([*kept, "skippy-before-the-move.tar", "a.tar.partial"])
    assert said.getvalue().count("was removed") == 4 - len(days)


def test_what_a_killed_one_left_goes_and_one_that_is_being_made_stays(tmp_path: Path) -> None:
    target, old, young = [tmp_path / f"skippy-2026110{day}-030000.tar" for day in (3, 1, 2)]
    target.touch()
    for path, age_s in ((old, 7200), (young, 10)):
        partial = path.with_name(f"{path.name}.partial")
        partial.touch()
        os.utime(partial, (time.time() - age_s,) * 2)
    remove_older(target, 1, Console(io.StringIO()))
    assert names(tmp_path) == ["skippy-20261102-030000.tar.partial", target.name]


def test_the_one_just_made_stays_though_a_clock_went_back(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"skippy-2026110{day}-030000.tar").touch()
    remove_older(tmp_path / "skippy-20261101-030000.tar", 1, Console(io.StringIO()))
    assert "skippy-20261101-030000.tar" in names(tmp_path)
