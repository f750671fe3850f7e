import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from skippy_site.state import CHECKOUT

# Stands in for Python: shows how it was called, then waits to be ended, as the service does.
SERVICE = """#!/bin/sh
trap 'echo ended; exit 0' INT TERM
echo "called $*"
while :; do sleep 0.05; done
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout with spaces"
    folder.mkdir()
    shutil.copy(CHECKOUT / "Makefile", folder)
    return folder


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    script = tmp_path / "python"
    script.write_text(SERVICE)
    script.chmod(0o755)
    return script


@pytest.fixture
def serving(folder: Path, stand_in: Path) -> Iterator[subprocess.Popen[str]]:
    make = subprocess.Popen(
        ["make", "serve", f"PYTHON={stand_in}", "ARGS=--flag"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    yield make
    if make.poll() is None:
        os.killpg(make.pid, signal.SIGKILL)
    make.communicate()


def test_plain_make_shows_every_target(folder: Path) -> None:
    shown = subprocess.run(["make"], cwd=folder, capture_output=True, text=True, check=True).stdout
    for target in ("serve", "test", "check", "backup", "restore", "audit", "lock", "doctor", "clean", "help"):
        assert f"make {target} " in shown


def test_the_chosen_python_is_called_in_a_folder_with_spaces(serving: subprocess.Popen[str]) -> None:
    assert serving.stdout is not None
    assert serving.stdout.readline() == "called -m skippy_site.provision serve --flag\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_service_ends_cleanly_and_make_adds_no_noise(
    serving: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert serving.stdout is not None
    serving.stdout.readline()
    if number == signal.SIGINT:
        os.killpg(serving.pid, number)  # a terminal sends it to everybody
    else:
        serving.send_signal(number)  # make hands it on
    rest, _ = serving.communicate(timeout=20)
    assert rest == "ended\n"


def test_ci_runs_the_checks_and_then_the_tests(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(CHECKOUT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "Makefile").write_text("check test:\n\t@echo $@\n")
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["check", "test"]
    (tmp_path / "Makefile").write_text("check:\n\t@false\ntest:\n\t@echo $@\n")
    failed = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert "test" not in failed.stdout


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        (["backup"], "manage.py backup"),
        (["backup", "FILE=/a b/c.tar", "KEEP=3"], "manage.py backup --keep=3 /a b/c.tar"),
        (["restore", "FILE=/a b/c.tar"], "manage.py restore /a b/c.tar"),
    ],
)
def test_backup_and_restore_hand_on_what_they_are_given(
    folder: Path, arguments: list[str], called: str
) -> None:
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    shown = subprocess.run(
        ["make", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert shown == f"{called}\n"
