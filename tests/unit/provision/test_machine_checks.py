from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.findings import Finding, Level
from skippy_site.provision.machine_checks import MachineChecks
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.state import StateFolder

CPU = Cpu("Linux", "x86_64", "made up", frozenset({"avx", "avx2"}))


@pytest.fixture
def checks(tmp_path: Path) -> MachineChecks:
    """A machine with nothing on it."""
    environment = {"PATH": str(tmp_path)}
    return MachineChecks(environment, VirtualEnv(tmp_path / ".venv"), StateFolder(tmp_path / "state"), CPU)


def levels(findings: Iterable[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def test_a_machine_without_a_compiler_cannot_build(checks: MachineChecks) -> None:
    found = list(checks.compiler())
    assert levels(found) == [Level.PROBLEM, Level.PROBLEM]
    assert all("apt-get install" in finding.advice for finding in found)


def test_what_is_not_made_yet_is_no_problem(checks: MachineChecks) -> None:
    assert levels(checks.virtual_environment()) == [Level.WARNING]
    assert levels(checks.llama_build()) == [Level.WARNING]
    assert levels(checks.disk())[0] in (Level.OK, Level.WARNING)


def test_amx_and_a_cpu_without_avx2_are_told(checks: MachineChecks) -> None:
    amx = replace(checks, cpu=replace(CPU, flags=CPU.flags | {"amx_int8"}))
    assert "leaves it out on purpose" in "".join(finding.text for finding in amx.processor())
    old = replace(checks, cpu=replace(CPU, flags=frozenset({"avx"})))
    assert levels(old.processor()) == [Level.OK, Level.WARNING]


def test_a_model_larger_than_the_machine_is_a_problem(checks: MachineChecks, tmp_path: Path) -> None:
    model = tmp_path / "huge.gguf"
    with model.open("wb") as file:
        file.truncate(1 << 43)
    (found,) = replace(checks, environment={"SKIPPY_MODEL": str(model)}).memory()
    assert found.level is Level.PROBLEM
    assert "huge.gguf" in found.text


def test_a_hub_model_is_looked_for_where_it_is_kept(checks: MachineChecks) -> None:
    given = replace(checks, environment={"SKIPPY_MODEL": "hf:org/repo/q/file.gguf@main"})
    (found,) = given.memory()
    assert "not fetched yet" in found.text
    kept = checks.state.models / "hub" / "org" / "repo" / "main" / "q"
    kept.mkdir(parents=True)
    (kept / "file.gguf").touch()
    (found,) = given.memory()
    assert "file.gguf" in found.text
