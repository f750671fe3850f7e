"""What to ask llama.cpp's build for on this machine: the caller's CMAKE_ARGS, or the CPU's own set."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skippy_site.provision.compiler import Compiler
from skippy_site.provision.cpu_features import Cpu, cmake_options
from skippy_site.provision.gpu_backend import BACKENDS, CPU, wanted_backend
from skippy_site.provision.wheel_cache import BuildKey

SKIP_COMMON = Path(__file__).with_name("skip_common.cmake")
# They reach the compiler or the generator beside CMAKE_ARGS, so they are part of what was built.
SHAPING_VARIABLES = (
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CUDACXX", "CUDAFLAGS", "CMAKE_TOOLCHAIN_FILE", "CC", "CXX",
    "CUDAARCHS", "SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE", "SKBUILD_CMAKE_BUILD_TYPE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """CMAKE_ARGS for one build and the key that it is kept under. `backend` is what computes beside
    the CPU, as far as it was asked for by name."""

    cmake_args: str
    is_callers: bool
    key: BuildKey
    backend: str = CPU


def callers_cmake_args(environment: Mapping[str, str]) -> str | None:
    """CMAKE_ARGS as the caller set it. None: not set. Empty: set, and asks for the usual build."""
    given = environment.get("CMAKE_ARGS")
    return None if given is None else given.strip()


def choose_build(
    version: str, cpu: Cpu, compiler: Compiler, environment: Mapping[str, str], *, scratch: Path | None = None
) -> BuildOptions:
    """The options for this machine. A caller's own CMAKE_ARGS are used as they are. Raises
    ProvisionProblem where a GPU's backend is wanted and cannot be built for.

    `scratch` is where the included cmake file was copied (its path goes into the arguments; its
    content, not its path, goes into the key).
    """
    given = callers_cmake_args(environment)
    backend = wanted_backend(environment) or CPU
    if given:
        arguments = keyed = given
    else:
        gpu = BACKENDS.get(backend)
        gpu_options = gpu.cmake_options(environment) if gpu else ()
        options = shlex.join([*cmake_options(cpu, compiler.compiles), *gpu_options])
        included = (scratch or SKIP_COMMON.parent) / SKIP_COMMON.name
        content = hashlib.sha256(SKIP_COMMON.read_bytes()).hexdigest()[:16]
        arguments = f"{options} '-DCMAKE_PROJECT_INCLUDE={included}'"
        keyed = f"{options} include={content}"
    key = BuildKey(
        version=version,
        cmake_args=keyed,
        compiler=compiler.version,
        machine=cpu.machine,
        platform=sysconfig.get_platform(),
        python=platform.python_implementation().lower() + sysconfig.get_python_version(),
        flags=tuple((name, environment[name]) for name in SHAPING_VARIABLES if environment.get(name)),
    )
    return BuildOptions(arguments, is_callers=bool(given), key=key, backend=backend)
