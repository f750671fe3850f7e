import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from skippy_site.env import Environment
from skippy_site.provision.findings import Finding, Level
from skippy_site.provision.service_checks import ServiceChecks, settings_findings
from skippy_site.state import StateFolder


def checks(folder: Path, **settings: str) -> ServiceChecks:
    return ServiceChecks({}, Environment(**settings), StateFolder(folder))


def levels(findings: Iterable[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def test_a_wrong_setting_is_a_problem_that_names_it() -> None:
    (found,) = settings_findings({"SKIPPY_PORT": "eighty"})
    assert found.level is Level.PROBLEM
    assert "SKIPPY_PORT" in found.text


def test_a_misspelt_setting_is_noticed() -> None:
    found = list(settings_findings({"SKIPPY_PROT": "80", "SKIPPY_PORT": "80", "OTHER": "1"}))
    assert levels(found) == [Level.WARNING, Level.OK]
    assert "SKIPPY_PROT" in found[0].text
    assert found[1].text == "SKIPPY_PORT"


def test_a_state_folder_open_to_others_is_noticed(tmp_path: Path) -> None:
    root = tmp_path / "state"
    assert levels(checks(root).state_folder()) == [Level.OK]
    StateFolder(root).make()
    assert levels(checks(root).state_folder()) == [Level.OK]
    root.chmod(0o755)
    assert levels(checks(root).state_folder()) == [Level.WARNING]


def test_a_secret_key_that_others_can_read_is_a_problem(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    state.make()
    state.secret_key_file.touch(0o644)
    found = list(checks(state.root).state_folder())
    assert levels(found) == [Level.OK, Level.PROBLEM]
    assert "chmod 600" in found[1].advice


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_state_folder_of_another_user_is_a_problem(tmp_path: Path) -> None:
    root = tmp_path / "state"
    root.mkdir(0o700)
    os.chown(root, 65534, 65534)
    assert levels(checks(root).state_folder()) == [Level.PROBLEM]


def test_a_model_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    assert levels(checks(tmp_path).model()) == [Level.OK]
    assert levels(checks(tmp_path, model="/no/such/file.gguf").model()) == [Level.PROBLEM]
    assert levels(checks(tmp_path, model="hf:org/repo/file.gguf").model()) == [Level.OK]
    assert levels(checks(tmp_path, model="hf:nonsense").model()) == [Level.PROBLEM]


def test_the_embedded_services_programs_run_here(tmp_path: Path) -> None:
    found = [*checks(tmp_path).postgres(), *checks(tmp_path).broker()]
    assert set(levels(found)) == {Level.OK}
    assert "PostgreSQL" in found[0].text


def test_a_projector_that_cannot_be_loaded_is_a_problem(tmp_path: Path) -> None:
    assert levels(checks(tmp_path).projector()) == []
    assert levels(checks(tmp_path, mmproj="hf:org/repo/mmproj.gguf").projector()) == [Level.OK]
    assert levels(checks(tmp_path, draft_model="hf:org/repo/small.gguf").draft_model()) == [Level.OK]
    assert levels(checks(tmp_path).draft_model()) == []
    (found,) = checks(tmp_path, mmproj="/no/such/file.gguf").projector()
    assert found.level is Level.PROBLEM
    assert "SKIPPY_MMPROJ" in found.text
