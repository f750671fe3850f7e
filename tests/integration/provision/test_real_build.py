"""The probe and the rewriting of weights, with the llama.cpp build that is installed here."""

import sys
from pathlib import Path

import pytest
from gguf import GGMLQuantizationType, GGUFReader

from skippy_site.provision.child_processes import ChildProcesses
from skippy_site.provision.default_model import original_file, rewrite_default_model, rewritten_file
from skippy_site.provision.probe import AMX_MARK, run_trial
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.progress import ReportedStep
from skippy_site.provision.tiny_gguf import write_tiny_gguf
from skippy_site.state import StateFolder

pytestmark = pytest.mark.model


def rewrite(state: StateFolder) -> list[str]:
    lines: list[str] = []
    rewrite_default_model(
        state,
        ChildProcesses(),
        ReportedStep(lines.append),
        python=Path(sys.executable),
        log=state.logs / "provision.log",
    )
    return lines


def test_the_installed_build_decodes_and_has_no_amx() -> None:
    system = run_trial(Path(sys.executable))
    assert "CPU : " in system
    assert AMX_MARK not in system


def test_a_python_without_the_build_is_told(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(ProvisionProblem, match=r"could not be tried.*llama_cpp"):
        run_trial(bare)


def test_weights_are_rewritten_once_and_the_original_goes(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "a state folder")
    state.make()
    write_tiny_gguf(original_file(state))
    assert rewrite(state)[-1].startswith("rewritten as Q8_0")
    assert not original_file(state).exists()
    kinds = {tensor.tensor_type for tensor in GGUFReader(rewritten_file(state)).tensors}
    assert kinds == {GGMLQuantizationType.F32, GGMLQuantizationType.Q8_0}
    assert rewrite(state) == []


def test_weights_that_cannot_be_rewritten_are_served_as_they_are(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    state.make()
    original_file(state).write_bytes(b"not a model")
    assert rewrite(state)[-1].startswith("kept as Q4_1")
    assert original_file(state).exists()
    assert not rewritten_file(state).exists()
    assert {path.name for path in state.models.iterdir()} == {original_file(state).name, ".lock"}
