"""`manage.py backup` and `manage.py restore`: arguments, exit codes, and what a person reads.

Exit codes: 0 done, 1 it could not be done (one line says why), 2 a setting or an argument is wrong.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from skippy_site.backup.making import make_backup
from skippy_site.backup.problem import BackupProblem
from skippy_site.backup.restoring import open_backup, restore_backup
from skippy_site.env import EnvironmentProblem, read_environment
from skippy_site.state import StateFolder
from skippy_site.supervisor.console import Console
from skippy_site.supervisor.problems import StartProblem
from skippy_site.supervisor.system_account import ACCOUNT_NAME

INTERRUPTED = 130


def add_backup_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, help="default: in the state folder, with the time")
    parser.add_argument("--keep", type=_count, metavar="N", help="remove older ones so named, but for N")


def add_restore_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="only say whether it is whole")


def run(arguments: Sequence[str], *, account_name: str = ACCOUNT_NAME) -> int:
    """`arguments` begin with backup or restore. `account_name` is for tests."""
    name, *rest = arguments
    parser = ArgumentParser(prog=f"manage.py {name}")
    (add_backup_arguments if name == "backup" else add_restore_arguments)(parser)
    given = parser.parse_args(rest)
    try:
        environment = read_environment()
    except EnvironmentProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    state, console = StateFolder.from_environment(), Console()
    # Of our own, or asyncio would only note the first of them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        if name == "restore" and given.check:
            open_backup(given.file, console).close()
            return 0
        state.make()
        if name == "backup":
            asyncio.run(
                make_backup(
                    environment,
                    state,
                    console,
                    target=given.file,
                    num_kept=given.keep,
                    account_name=account_name,
                )
            )
        else:
            asyncio.run(
                restore_backup(environment, state, console, source=given.file, account_name=account_name)
            )
    except (BackupProblem, StartProblem) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    except OSError as problem:
        sys.stderr.write(f"the state folder {state.root} cannot be used: {problem}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted: nothing of it was kept.\n")
        return INTERRUPTED
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("at least 1")
    return number


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
