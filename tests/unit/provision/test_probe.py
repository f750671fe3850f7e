import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.probe import judge_trial, prove_build, remembered_proof, run_trial
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.virtual_env import VirtualEnv

CPU = Cpu("Linux", "x86_64", "made up", frozenset({"avx"}))
GOOD = json.dumps({"ok": True, "system": "CPU : AVX = 1 | REPACK = 1 | "})


def make_venv(folder: Path, script: str) -> VirtualEnv:
    """An environment whose `python` is a shell script."""
    venv = VirtualEnv(folder / "a venv")
    metadata = venv.folder / "lib" / "python3.11" / "site-packages" / "llama_cpp_python-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "RECORD").write_text("one build\n")
    venv.python.parent.mkdir()
    venv.python.write_text(f"#!/bin/sh\n{script}\n")
    venv.python.chmod(0o755)
    return venv


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGABRT", "SIGKILL"])
def test_a_build_that_kills_its_process_is_named_with_what_to_do(name: str) -> None:
    with pytest.raises(ProvisionProblem) as caught:
        judge_trial(-signal.Signals[name], "", "", cache_place=Path("/cache/build"))
    text = caught.value.explain()
    assert name in text
    assert "delete /cache/build" in text
    assert "CMAKE_ARGS=" in text


def test_a_real_child_that_dies_is_told_by_its_signal(tmp_path: Path) -> None:
    venv = make_venv(tmp_path, "kill -ILL $$")
    with pytest.raises(ProvisionProblem, match="SIGILL: it uses an instruction"):
        run_trial(venv.python)


def test_a_build_with_amx_is_refused() -> None:
    answer = json.dumps({"ok": True, "system": "CPU : AVX2 = 1 | AMX_INT8 = 1 | "})
    with pytest.raises(ProvisionProblem, match="uses AMX"):
        judge_trial(0, answer, "")


def test_a_build_that_computes_nonsense_is_refused() -> None:
    answer = json.dumps({"ok": False, "reason": "the logits are not sane numbers"})
    with pytest.raises(ProvisionProblem, match="not sane numbers"):
        judge_trial(1, answer, "")


def test_a_trial_that_could_not_run_shows_its_last_line() -> None:
    with pytest.raises(ProvisionProblem, match="ImportError: libgomp"):
        judge_trial(1, "", "Traceback\nImportError: libgomp.so.1 not found")


def test_a_proof_is_made_once_for_a_build_and_a_cpu(tmp_path: Path) -> None:
    venv = make_venv(tmp_path, f"echo run >> '{tmp_path}/runs'; echo '{GOOD}'")
    runs = tmp_path / "runs"
    proof = prove_build(venv, CPU)
    assert proof.system.startswith("CPU : AVX")
    assert prove_build(venv, CPU) == proof
    assert runs.read_text().count("run") == 1
    other_cpu = replace(CPU, model="another CPU")
    assert remembered_proof(venv, other_cpu) is None
    prove_build(venv, other_cpu)
    assert runs.read_text().count("run") == 2
    record = next(venv.site_packages.glob("*.dist-info")) / "RECORD"
    record.write_text("another build\n")
    assert remembered_proof(venv, other_cpu) is None


def test_without_the_package_it_says_so(tmp_path: Path) -> None:
    venv = VirtualEnv(tmp_path)
    (tmp_path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    with pytest.raises(ProvisionProblem, match="not installed"):
        prove_build(venv, CPU)
