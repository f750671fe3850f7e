from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.installed_build import (
    InstalledBuild,
    mark_installed_build,
    metadata_folder,
    read_installed_build,
)
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.provision.wheel_cache import file_sha256

CPU = Cpu("Linux", "x86_64", "made up", frozenset({"avx", "avx2", "nx"}))


@pytest.fixture
def venv(tmp_path: Path) -> VirtualEnv:
    venv = VirtualEnv(tmp_path)
    (tmp_path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    metadata_folder(venv, "1.0").mkdir()
    (metadata_folder(venv, "1.0") / "RECORD").write_text("llama_cpp/lib/libllama.so,sha256=abc,1\n")
    return venv


@pytest.fixture
def build(venv: VirtualEnv) -> InstalledBuild:
    record = file_sha256(metadata_folder(venv, "1.0") / "RECORD")
    return InstalledBuild("1.0", "key", "wheel", record, "-DGGML_AVX=ON", False, "x86_64", ("avx", "avx2"))


def test_the_mark_is_read_back(venv: VirtualEnv, build: InstalledBuild) -> None:
    assert read_installed_build(venv, "1.0") is None
    mark_installed_build(venv, build)
    assert read_installed_build(venv, "1.0") == build


def test_a_build_installed_over_it_is_not_taken_for_ours(venv: VirtualEnv, build: InstalledBuild) -> None:
    mark_installed_build(venv, build)
    (metadata_folder(venv, "1.0") / "RECORD").write_text("llama_cpp/lib/libllama.so,sha256=other,1\n")
    assert read_installed_build(venv, "1.0") is None


def test_a_damaged_mark_is_none(venv: VirtualEnv) -> None:
    (metadata_folder(venv, "1.0") / "skippy-build.json").write_text('{"version": "1.0"}')
    assert read_installed_build(venv, "1.0") is None


def test_the_right_build_has_no_complaint(build: InstalledBuild) -> None:
    assert build.complaint("1.0", CPU, {}) is None
    assert build.complaint("1.0", replace(CPU, model="same flags"), {"CMAKE_ARGS": ""}) is None


def test_another_version_cpu_or_machine_is_noticed(build: InstalledBuild) -> None:
    assert "1.1 is wanted" in (build.complaint("1.1", CPU, {}) or "")
    moved = replace(CPU, model="Older CPU", flags=frozenset({"avx"}))
    assert "Older CPU" in (build.complaint("1.0", moved, {}) or "")
    better = replace(CPU, flags=CPU.flags | {"fma"})
    assert build.complaint("1.0", better, {}) is not None
    assert build.complaint("1.0", replace(CPU, machine="aarch64"), {}) is not None


def test_the_callers_options_ask_for_another_build(build: InstalledBuild) -> None:
    assert build.complaint("1.0", CPU, {"CMAKE_ARGS": "-DGGML_CUDA=ON"}) is not None


def test_a_build_with_the_callers_options_stays_until_they_change(build: InstalledBuild) -> None:
    own = replace(build, is_callers=True, cmake_args="-DGGML_CUDA=ON", cpu_flags=("other",))
    assert own.complaint("1.0", CPU, {"CMAKE_ARGS": "-DGGML_CUDA=ON "}) is None
    assert own.complaint("1.0", CPU, {}) is None
    assert own.complaint("1.0", CPU, {"CMAKE_ARGS": ""}) is not None
    assert own.complaint("1.0", CPU, {"CMAKE_ARGS": "-DGGML_VULKAN=ON"}) is not None
