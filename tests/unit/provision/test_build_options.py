import shlex
from dataclasses import replace
from pathlib import Path

from skippy_site.provision.build_options import choose_build
from skippy_site.provision.compiler import Compiler
from skippy_site.provision.cpu_features import Cpu

CPU = Cpu("Linux", "x86_64", "made up", frozenset(["sse4_2", "avx", "f16c", "fma", "bmi2", "avx2"]))
# `true` accepts every flag.
COMPILER = Compiler(("true",), ("true",), "cc 12.2; c++ 12.2")


def test_the_usual_build_names_its_options_and_leaves_common_out(tmp_path: Path) -> None:
    scratch = tmp_path / "a folder with spaces"
    options = choose_build("1.0", CPU, COMPILER, {}, scratch=scratch)
    arguments = shlex.split(options.cmake_args)
    assert "-DGGML_AVX2=ON" in arguments
    assert f"-DCMAKE_PROJECT_INCLUDE={scratch}/skip_common.cmake" in arguments
    assert not options.is_callers


def test_the_callers_cmake_args_are_used_as_they_are() -> None:
    options = choose_build("1.0", CPU, COMPILER, {"CMAKE_ARGS": " -DGGML_CUDA=ON -DFOO='a b' "})
    assert options.cmake_args == "-DGGML_CUDA=ON -DFOO='a b'"
    assert options.is_callers


def test_empty_cmake_args_mean_the_usual_build() -> None:
    usual = choose_build("1.0", CPU, COMPILER, {})
    assert choose_build("1.0", CPU, COMPILER, {"CMAKE_ARGS": " "}).key == usual.key


def test_the_key_does_not_depend_on_where_the_checkout_is(tmp_path: Path) -> None:
    first = choose_build("1.0", CPU, COMPILER, {}, scratch=tmp_path / "one")
    second = choose_build("1.0", CPU, COMPILER, {}, scratch=tmp_path / "two")
    assert first.key == second.key


def test_all_that_shapes_the_build_changes_the_key() -> None:
    other_cpu = replace(CPU, flags=CPU.flags | {"avx_vnni"})
    other_compiler = replace(COMPILER, version="cc 13.1; c++ 13.1")
    keys = [
        choose_build("1.0", CPU, COMPILER, {}).key.digest,
        choose_build("1.1", CPU, COMPILER, {}).key.digest,
        choose_build("1.0", other_cpu, COMPILER, {}).key.digest,
        choose_build("1.0", CPU, other_compiler, {}).key.digest,
        choose_build("1.0", CPU, COMPILER, {"CMAKE_ARGS": "-DGGML_CUDA=ON"}).key.digest,
        choose_build("1.0", CPU, COMPILER, {"CFLAGS": "-O1"}).key.digest,
        choose_build("1.0", CPU, COMPILER, {"CXX": "clang++"}).key.digest,
    ]
    assert len(set(keys)) == len(keys)


def test_a_cpus_name_does_not_change_the_key() -> None:
    assert choose_build("1.0", replace(CPU, model="another"), COMPILER, {}).key == (
        choose_build("1.0", CPU, COMPILER, {}).key
    )
