from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skippy_site.supervisor.problems import ServiceProblem
from skippy_site.supervisor.process import Child, Command, exit_text

PATH = {"PATH": os.environ["PATH"]}


def shell(folder: Path, script: str, *, stop_grace_s: float = 5.0) -> Command:
    return Command(
        argv=("/bin/sh", "-c", script),
        environment=PATH,
        folder=folder,
        log_file=folder / "child.log",
        stop_grace_s=stop_grace_s,
    )


async def until(path: Path) -> None:
    async with asyncio.timeout(5):
        while not path.exists():
            await asyncio.sleep(0.01)


async def test_a_child_ends_with_its_code_and_its_output_is_in_the_log(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "echo out; echo err >&2; exit 7"))

    assert await child.wait() == 7
    assert child.exit_code == 7
    assert (tmp_path / "child.log").read_text() == "out\nerr\n"
    assert (tmp_path / "child.log").stat().st_mode & 0o777 == 0o600


async def test_output_that_is_read_is_not_in_the_log(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "echo one; echo two; echo err >&2"), reads_output=True)

    assert [line async for line in child.output_lines()] == ["one", "two"]
    assert await child.wait() == 0
    assert (tmp_path / "child.log").read_text() == "err\n"


async def test_who_does_not_stop_is_killed_after_the_grace(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "trap '' TERM; touch ready; sleep 60", stop_grace_s=0.2))
    await until(tmp_path / "ready")

    assert await child.stop(hurry=asyncio.Event()) == -signal.SIGKILL


async def test_hurry_shortens_the_grace(tmp_path: Path) -> None:
    script = "trap 'exit 5' INT; trap '' TERM; touch ready; while :; do sleep 0.05; done"
    command = shell(tmp_path, script, stop_grace_s=60)
    child = Child(
        Command(
            argv=command.argv,
            environment=PATH,
            folder=tmp_path,
            log_file=command.log_file,
            stop_grace_s=60,
            hurry_signal=signal.SIGINT,
        )
    )
    await until(tmp_path / "ready")
    hurry = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, hurry.set)

    started_ts = time.monotonic()
    assert await child.stop(hurry=hurry) == 5
    assert time.monotonic() - started_ts < 3


async def test_what_a_child_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    child = Child(shell(tmp_path, "sleep 60 & echo $! > pid.new; mv pid.new pid; exit 0"))

    await child.wait()

    left = int((tmp_path / "pid").read_text())
    async with asyncio.timeout(5):
        while _is_running(left):
            await asyncio.sleep(0.01)


def test_a_child_does_not_outlive_its_supervisor(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, pathlib, time
from skippy_site.supervisor.process import Child, Command
folder = pathlib.Path({str(tmp_path)!r})
child = Child(Command(argv=("/bin/sleep", "60"), environment={{}}, folder=folder, log_file=folder / "log"))
print(child.pid, flush=True)
time.sleep(60)
"""
    supervisor = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    with supervisor.stdout:
        pid = int(supervisor.stdout.readline())
    assert _is_running(pid)

    supervisor.kill()
    supervisor.wait(5)

    deadline_ts = time.monotonic() + 5
    while _is_running(pid):
        assert time.monotonic() < deadline_ts
        time.sleep(0.01)


def test_a_program_that_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    command = Command(argv=("/no/such/program",), environment={}, folder=tmp_path, log_file=tmp_path / "log")
    with pytest.raises(ServiceProblem, match="/no/such/program cannot be started"):
        Child(command)


def test_commands_do_not_show_their_environment(tmp_path: Path) -> None:
    command = Command(
        argv=("/bin/true",), environment={"DATABASE_URL": "secret"}, folder=tmp_path, log_file=tmp_path / "l"
    )
    assert "secret" not in repr(command)


@pytest.mark.parametrize(
    ("code", "text"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "ended by SIGKILL"), (-77, "signal 77")]
)
def test_an_end_is_told_in_words(code: int, text: str) -> None:
    assert text in exit_text(code)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
