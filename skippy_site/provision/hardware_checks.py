"""What llama.cpp can compute on here, and whether the model would fit. Needs .venv and a build."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skippy_site.provision.child_processes import child_environment, describe_exit
from skippy_site.provision.findings import Check, Finding, ok, problem, warning
from skippy_site.provision.hardware_report import HardwareReport
from skippy_site.state import CHECKOUT

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class HardwareChecks:
    """One build and one model (None: it is not here yet). While the service `is_running`, memory is
    taken by it, and asking whether it would fit once more makes no sense."""

    python: Path
    model: Path | None
    is_running: bool

    def all(self) -> list[tuple[str, Check]]:
        return [("devices", self.devices)]

    def devices(self) -> Iterator[Finding]:
        model = None if self.is_running else self.model
        ran = subprocess.run(
            [self.python, "-m", "skippy_site.provision.hardware_report", *([model] if model else [])],
            env=child_environment(PYTHONPATH=str(CHECKOUT), GGML_NO_BACKTRACE="1"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
        yield from judge_report(ran.returncode, ran.stdout)


def judge_report(code: int, output: str) -> Iterator[Finding]:
    """The findings from a child's end and its output."""
    try:
        found = json.loads(output.strip().rpartition("\n")[2])
        report = HardwareReport(tuple(found["devices"]), tuple(found["memory"]), str(found["problem"]))
    except (ValueError, KeyError, TypeError):
        yield warning("devices", f"llama.cpp could not be asked for them ({describe_exit(code)})")
        return
    if report.devices:
        yield ok("devices", "; ".join(report.devices))
    for line in report.memory:
        yield ok("model memory", line)
    if report.problem:
        yield problem("hardware", report.problem, "docs/hardware.md tells more about these settings")
