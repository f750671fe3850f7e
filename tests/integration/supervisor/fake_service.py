"""The real supervisor with real Postgres and Valkey over stand-ins: `python -m … .fake_service`."""

from __future__ import annotations

import sys

from skippy_site.supervisor.backoff import RestartPolicy
from skippy_site.supervisor.programs import Programs
from skippy_site.supervisor.serve import serve

_PLAY = (sys.executable, "-m", "tests.integration.supervisor.fake_programs")

if __name__ == "__main__":
    sys.exit(
        serve(
            programs=Programs(
                first_run=(*_PLAY, "first_run"),
                model=(*_PLAY, "model"),
                server=(*_PLAY, "server"),
                worker=(*_PLAY, "worker"),
                beat=(*_PLAY, "beat"),
            ),
            policy=RestartPolicy(first_delay_s=0.2, max_failures=4),
            # The user that every system has: a test adds none to the machine.
            account_name="nobody",
        )
    )
