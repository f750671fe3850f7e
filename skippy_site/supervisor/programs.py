"""The command lines of the service's own processes; tests put scripts of theirs in their place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from skippy_site.state import CHECKOUT, StateFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """An argument list for each process.

    `first_run` prints one JSON object, see the command of that name; `model` prints lines as
    model_step.py describes them; `server` listens at SKIPPY_HOST and SKIPPY_PORT.
    """

    first_run: tuple[str, ...]
    model: tuple[str, ...]
    server: tuple[str, ...]
    worker: tuple[str, ...]
    beat: tuple[str, ...]
    folder: Path = CHECKOUT

    @classmethod
    def of_this_checkout(cls, state: StateFolder) -> Programs:
        python = sys.executable
        celery = (python, "-m", "celery", "-A", "skippy_site")
        return cls(
            first_run=(python, str(CHECKOUT / "manage.py"), "first_run", "--migrate", "--json"),
            model=(python, "-m", "skippy_site.supervisor.model_step"),
            server=(python, "-m", "skippy_site.servers"),
            # The solo pool runs tasks in the worker's own process. Forked pool processes would cost
            # as much memory again and would not end with a supervisor that is killed.
            worker=(
                *celery, "worker", "--pool=solo", "--concurrency=1", "--without-gossip", "--without-mingle",
                "--loglevel=warning",
            ),
            beat=(
                *celery, "beat", "--pidfile=", f"--schedule={state.run / 'beat-schedule'}",
                "--loglevel=warning",
            ),
        )  # fmt: skip
