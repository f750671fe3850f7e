from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from skippy_site.provision.build_options import choose_build
from skippy_site.provision.compiler import Compiler
from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.gpu_backend import BACKENDS, cuda_architectures, wanted_backend
from skippy_site.provision.installed_build import InstalledBuild
from skippy_site.provision.problem import ProvisionProblem

CPU = Cpu("Linux", "x86_64", "made up", frozenset(["avx", "avx2"]))
COMPILER = Compiler(("true",), ("true",), "cc 12.2; c++ 12.2")


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment in which nvcc is found and nvidia-smi names three GPUs of two kinds."""
    for name, text in {"nvcc": "", "nvidia-smi": "echo 8.9; echo 9.0; echo 8.9"}.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def test_a_backend_is_asked_for_by_name() -> None:
    assert wanted_backend({}) is None
    assert wanted_backend({"SKIPPY_LLAMA_BACKEND": " "}) is None
    assert wanted_backend({"SKIPPY_LLAMA_BACKEND": "CUDA"}) == "cuda"
    assert wanted_backend({"SKIPPY_LLAMA_BACKEND": "cpu", "CMAKE_ARGS": " "}) == "cpu"
    with pytest.raises(ProvisionProblem, match="no build for 'rocm; rm'"):
        wanted_backend({"SKIPPY_LLAMA_BACKEND": "rocm; rm"})
    with pytest.raises(ProvisionProblem, match="both set"):
        wanted_backend({"SKIPPY_LLAMA_BACKEND": "cuda", "CMAKE_ARGS": "-DGGML_CUDA=ON"})


def test_a_gpus_options_come_on_top_of_the_cpus(programs: dict[str, str]) -> None:
    usual = shlex.split(choose_build("1.0", CPU, COMPILER, {}).cmake_args)
    for name, option in (("vulkan", "-DGGML_VULKAN=ON"), ("metal", "-DGGML_METAL=ON")):
        options = choose_build("1.0", CPU, COMPILER, {"SKIPPY_LLAMA_BACKEND": name})
        arguments = shlex.split(options.cmake_args)
        assert option in arguments
        assert set(usual) < set(arguments)
        assert (options.backend, options.is_callers) == (name, False)
    cuda = choose_build("1.0", CPU, COMPILER, {**programs, "SKIPPY_LLAMA_BACKEND": "cuda"})
    assert "-DGGML_CUDA=ON" in shlex.split(cuda.cmake_args)
    # The semicolon is quoted: it must reach cmake, and no shell.
    assert "-DCMAKE_CUDA_ARCHITECTURES=89-real;90-real" in shlex.split(cuda.cmake_args)


def test_every_backend_is_a_build_of_its_own(programs: dict[str, str]) -> None:
    wanted = [
        {},
        {"SKIPPY_LLAMA_BACKEND": "vulkan"},
        {**programs, "SKIPPY_LLAMA_BACKEND": "cuda"},
        {"SKIPPY_LLAMA_BACKEND": "cuda", "CUDAARCHS": "80"},
        {"SKIPPY_LLAMA_BACKEND": "cuda", "CUDAARCHS": "90"},
    ]
    keys = [choose_build("1.0", CPU, COMPILER, environment).key for environment in wanted]
    assert len({key.digest for key in keys}) == len(keys)
    assert choose_build("1.0", CPU, COMPILER, {"SKIPPY_LLAMA_BACKEND": "cpu"}).key == keys[0]


def test_without_a_gpu_its_architecture_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ProvisionProblem, match="nvidia-smi names none"):
        cuda_architectures({"PATH": str(tmp_path)})
    broken = tmp_path / "nvidia-smi"
    broken.write_text("#!/bin/sh\necho 'No devices were found'\n")
    broken.chmod(0o755)
    with pytest.raises(ProvisionProblem, match="nvidia-smi names none"):
        cuda_architectures({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    given = {"PATH": str(tmp_path), "CUDAARCHS": "90"}
    assert BACKENDS["cuda"].cmake_options(given) == ("-DGGML_CUDA=ON",)


def test_what_a_build_lacks_is_said_before_it_begins(tmp_path: Path, programs: dict[str, str]) -> None:
    nothing = {"PATH": str(tmp_path / "empty")}
    for name, system, words in [
        ("cuda", "Linux", "needs nvcc"),
        ("vulkan", "Linux", "needs glslc"),
        ("metal", "Linux", "needs Darwin"),
    ]:
        with pytest.raises(ProvisionProblem, match=words) as caught:
            BACKENDS[name].require(system, nothing)
        assert caught.value.advice
    BACKENDS["cuda"].require("Linux", programs)
    BACKENDS["metal"].require("Darwin", nothing)
    BACKENDS["cuda"].require("Linux", {**nothing, "CUDACXX": "/bin/sh"})
    with pytest.raises(ProvisionProblem, match="needs /no/nvcc"):
        BACKENDS["cuda"].require("Linux", {**programs, "CUDACXX": "/no/nvcc"})


def test_an_installed_build_stays_until_another_backend_is_named() -> None:
    cpu = InstalledBuild("1.0", "k", "w", "r", "-DA=ON", False, "x86_64", ("avx", "avx2"))
    cuda = replace(cpu, backend="cuda")
    own = replace(cpu, is_callers=True)
    assert cuda.complaint("1.0", CPU, {}) is None
    assert cuda.complaint("1.0", CPU, {"SKIPPY_LLAMA_BACKEND": "cuda"}) is None
    assert cpu.complaint("1.0", CPU, {"SKIPPY_LLAMA_BACKEND": "cpu"}) is None
    for build, wanted in ((cuda, "cpu"), (cuda, "vulkan"), (cpu, "cuda"), (own, "cpu")):
        complaint = build.complaint("1.0", CPU, {"SKIPPY_LLAMA_BACKEND": wanted})
        assert complaint is not None
        assert "SKIPPY_LLAMA_BACKEND" in complaint
