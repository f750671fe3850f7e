"""Says in plain lines what is wrong with a machine, before or after the service was installed on it.

    make doctor                                   # works on a bare machine
    .venv/bin/python manage.py doctor

Needs neither a database nor valid settings. The exit status is 1 if something keeps the service from
running.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from skippy_site.provision.findings import Finding, Level, run_checks, warning
from skippy_site.provision.machine_checks import MachineChecks, chosen_model_file
from skippy_site.state import StateFolder


def findings() -> Iterator[Finding]:
    """All that was found, in the order in which it is best read."""
    yield from run_checks(MachineChecks.here().all())
    if any(importlib.util.find_spec(name) is None for name in ("msgspec", "psycopg", "kombu")):
        yield warning("services", "they are checked once the dependencies are installed", "`make serve`")
        return
    from skippy_site.env import EnvironmentProblem, read_environment
    from skippy_site.provision.hardware_checks import HardwareChecks
    from skippy_site.provision.service_checks import ServiceChecks, settings_findings

    yield from run_checks([("settings", lambda: settings_findings(os.environ))])
    try:
        environment = read_environment()
    except EnvironmentProblem:
        return
    state = StateFolder.from_environment()
    services = ServiceChecks(os.environ, environment, state)
    yield from run_checks(services.all())
    if importlib.util.find_spec("llama_cpp") is not None:
        hardware = HardwareChecks(
            Path(sys.executable), chosen_model_file(os.environ, state), is_running=services.is_running
        )
        yield from run_checks(hardware.all())


def report() -> int:
    """Print the findings as they come; 1 if one is a problem."""
    num_problems = num_warnings = 0
    for finding in findings():
        sys.stdout.write(f"{finding.line()}\n")
        sys.stdout.flush()
        num_problems += finding.level is Level.PROBLEM
        num_warnings += finding.level is Level.WARNING
    sys.stdout.write(f"\nproblems: {num_problems}, warnings: {num_warnings}\n")
    return 1 if num_problems else 0


if __name__ == "__main__":
    sys.exit(report())
