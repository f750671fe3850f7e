from __future__ import annotations

import os
from pathlib import Path

import pytest

from skippy_site.supervisor.postgres import remove_foreign_pid_file


@pytest.fixture
def pid_file(tmp_path: Path) -> Path:
    return tmp_path / "postmaster.pid"


def test_a_pid_that_now_belongs_to_another_program_is_forgotten(pid_file: Path) -> None:
    pid_file.write_text(f"{os.getpid()}\n{pid_file.parent}\n")

    remove_foreign_pid_file(pid_file.parent)

    assert not pid_file.exists()


def test_a_dead_pid_is_left_to_postgres(pid_file: Path) -> None:
    pid_file.write_text("4194305\n")  # above the largest pid there can be

    remove_foreign_pid_file(pid_file.parent)

    assert pid_file.exists()


@pytest.mark.parametrize("text", ["", "no number\n"])
def test_an_unreadable_pid_file_is_left_to_postgres(pid_file: Path, text: str) -> None:
    pid_file.write_text(text)

    remove_foreign_pid_file(pid_file.parent)

    assert pid_file.exists()
