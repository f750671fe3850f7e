import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from skippy_site.provision.child_processes import (
    ChildProcesses,
    child_environment,
    describe_exit,
    pip_command,
)
from skippy_site.provision.problem import Interrupted, ProvisionProblem


def run(children: ChildProcesses, script: str, log: Path, lines: list[str] | None = None) -> None:
    seen: list[str] = [] if lines is None else lines
    children.run(
        ["/bin/sh", "-c", script],
        log=log,
        environment=child_environment(),
        what="The trial",
        advice="try harder",
        on_line=seen.append,
    )


def test_lines_are_seen_and_kept(tmp_path: Path) -> None:
    lines: list[str] = []
    run(ChildProcesses(), "echo one; echo two >&2", tmp_path / "logs" / "log", lines)
    assert lines == ["one", "two"]
    assert (tmp_path / "logs" / "log").read_text() == "$ /bin/sh -c echo one; echo two >&2\none\ntwo\n"


def test_a_failure_shows_its_last_lines_the_log_and_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(ProvisionProblem) as caught:
        run(ChildProcesses(), "seq 1 100; exit 3", log)
    text = caught.value.explain()
    assert "The trial failed (exit status 3)" in text
    assert "    100\n" in text
    assert "    76\n" in text
    assert "    75\n" not in text
    assert str(log) in text
    assert "What to do: try harder" in text


def test_a_signal_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProvisionProblem, match="ended by SIGILL"):
        run(ChildProcesses(), "kill -ILL $$", tmp_path / "log")


def test_stop_ends_the_whole_tree_and_lets_nothing_new_begin(tmp_path: Path) -> None:
    children = ChildProcesses()
    lines: list[str] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run(children, "sleep 60 & echo $!; wait", tmp_path / "log", lines)
        except Interrupted as problem:
            failures.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    while not lines:
        time.sleep(0.01)
    children.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert len(failures) == 1
    grandchild = int(lines[0])
    for _ in range(200):
        if not is_alive(grandchild):
            break
        time.sleep(0.02)
    assert not is_alive(grandchild)
    with pytest.raises(Interrupted):
        run(children, "true", tmp_path / "log")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_a_child_cannot_use_is_taken_out_of_its_environment() -> None:
    source = {"MAKEFLAGS": "-j", "PYTHONPATH": "x", "PIP_USER": "1", "PIP_TARGET": "y", "HOME": "/h"}
    environment = child_environment(source, EXTRA="1")
    assert environment["HOME"] == "/h"
    assert environment["EXTRA"] == "1"
    assert environment["PIP_USER"] == "0"
    assert not {"MAKEFLAGS", "PYTHONPATH", "PIP_TARGET"} & set(environment)
    assert source["MAKEFLAGS"] == "-j"


def test_exits_are_described() -> None:
    assert describe_exit(0) == "exit status 0"
    assert describe_exit(-signal.SIGSEGV) == "ended by SIGSEGV"
    assert describe_exit(-60) == "ended by signal 60"


def test_pip_is_called_by_its_own_python() -> None:
    command = pip_command(Path(sys.executable), "install", "-r", Path("x.txt"))
    assert [os.fspath(part) for part in command[:4]] == [sys.executable, "-m", "pip", "install"]
    assert command[-1] == Path("x.txt")
