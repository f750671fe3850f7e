from __future__ import annotations

import json
from dataclasses import asdict

from skippy_site.provision.findings import Finding, Level
from skippy_site.provision.hardware_checks import judge_report
from skippy_site.provision.hardware_report import HardwareReport


def judged(report: HardwareReport, *, noise: str = "") -> list[Finding]:
    return list(judge_report(0, f"{noise}{json.dumps(asdict(report))}\n"))


def test_devices_and_memory_are_lines_of_the_report() -> None:
    report = HardwareReport(
        ("CPU (a processor)", "CUDA0 (a GPU)"), ("CPU: weights 1 MB", "CUDA0: weights 9 GB")
    )
    found = judged(report, noise="something that the library printed\n")
    assert [one.level for one in found] == [Level.OK] * 3
    assert found[0].text == "CPU (a processor); CUDA0 (a GPU)"
    assert [one.text for one in found[1:]] == list(report.memory)


def test_what_cannot_be_is_a_problem_beside_what_there_is() -> None:
    found = judged(HardwareReport(("CPU (a processor)",), (), "SKIPPY_GPU_LAYERS asks for a GPU."))
    assert [one.level for one in found] == [Level.OK, Level.PROBLEM]
    assert "SKIPPY_GPU_LAYERS" in found[1].text


def test_a_child_that_died_or_said_nothing_useful_is_a_warning() -> None:
    for code, output in ((-4, ""), (1, "Traceback"), (0, "[]"), (0, "{}"), (0, '{"devices": 1}')):
        (found,) = judge_report(code, output)
        assert found.level is Level.WARNING
    assert "SIGILL" in next(iter(judge_report(-4, ""))).text
