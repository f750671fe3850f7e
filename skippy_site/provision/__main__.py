"""The Makefile's other half: prepares what a command needs, then becomes that command.

    python3 -m skippy_site.provision serve [arguments of manage.py serve]
    python3 -m skippy_site.provision test [arguments of pytest]
    python3 -m skippy_site.provision prepare | tools | doctor

`prepare` stops where `serve` would begin (for images and services that start manage.py themselves);
`tools` brings what `make check` needs; `doctor` changes nothing.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (an older Python is what this is about)
    sys.exit("Skippy needs Python 3.11 or later: make serve PYTHON=/path/to/python3.11")

import os
import signal
from collections.abc import Sequence

from skippy_site.provision.doctor import report
from skippy_site.provision.preparation import Goal, prepare
from skippy_site.provision.problem import Interrupted, ProvisionProblem
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.state import CHECKOUT

GOALS = {
    "serve": lambda: Goal.serving(os.environ),
    "prepare": lambda: Goal.serving(os.environ),
    "test": Goal.testing,
    "tools": Goal.checking,
}
COMMANDS = {"serve": ["manage.py", "serve"], "test": ["-m", "pytest"]}
INTERRUPTED = "Interrupted. What was finished is kept: run the same command again to go on.\n"


def main(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else ""
    if name == "doctor":
        return _doctor()
    if name not in GOALS:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        python = prepare(GOALS[name]())
    except ProvisionProblem as problem:
        sys.stderr.write(f"\n{problem.explain()}\n")
        return 1
    except (KeyboardInterrupt, Interrupted):
        sys.stderr.write(f"\n{INTERRUPTED}")
        return 130
    except OSError as problem:
        sys.stderr.write(f"\nThe preparation failed: {problem}\n\nWhat to do: `make doctor` may tell more.\n")
        return 1
    if name in COMMANDS:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.chdir(CHECKOUT)
        # Taking this process's place, so that make's signals and the exit status go straight through.
        os.execv(python, [str(python), *COMMANDS[name], *arguments[1:]])  # noqa: S606
    return 0


def _doctor() -> int:
    """With the environment's Python if there is one: it can look at the services too."""
    venv = VirtualEnv.of_checkout()
    if venv.is_usable():
        os.chdir(CHECKOUT)
        os.execv(venv.python, [str(venv.python), "-m", "skippy_site.provision.doctor"])  # noqa: S606
    return report()


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
