"""Builds of llama.cpp that compute on a GPU: what each needs on the machine, and its options for cmake.

They come on top of the options for the CPU, which stay as safe as they are: layers that the GPU has
no memory for are the CPU's. Sources: ggml/CMakeLists.txt, llama.cpp's docs/build.md.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from skippy_site.provision.problem import ProvisionProblem

VARIABLE = "SKIPPY_LLAMA_BACKEND"
CPU = "cpu"


@dataclass(frozen=True, slots=True)
class GpuBackend:
    """`programs`: one of them must be found; `variable` may name another one."""

    name: str
    options: tuple[str, ...]
    system: str = ""
    programs: tuple[str, ...] = ()
    variable: str = ""
    advice: str = ""

    def require(self, system: str, environment: Mapping[str, str]) -> None:
        """Raise ProvisionProblem where a build would only fail after minutes, and say why."""
        if self.system and system != self.system:
            raise ProvisionProblem(
                f"{VARIABLE}={self.name} needs {self.system}, and this is {system}.", advice=self.advice
            )
        if not self.programs:
            return
        own = shlex.split(environment.get(self.variable, "")) if self.variable else []
        wanted = own[:1] or self.programs
        if not any(shutil.which(program, path=environment.get("PATH")) for program in wanted):
            raise ProvisionProblem(
                f"{VARIABLE}={self.name} needs {' or '.join(wanted)}, which was not found.",
                advice=self.advice,
            )

    def cmake_options(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """May raise ProvisionProblem, as `require` does."""
        # cmake reads CUDAARCHS itself.
        if self.name == "cuda" and not environment.get("CUDAARCHS", "").strip():
            return (*self.options, f"-DCMAKE_CUDA_ARCHITECTURES={cuda_architectures(environment)}")
        return self.options


def cuda_architectures(environment: Mapping[str, str]) -> str:
    """Those of the GPUs in this machine, such as `89-real` or `80-real;90-real`: built for these alone,
    llama.cpp compiles in a fraction of the time. Named, not left to cmake's `native`, because the
    built wheel is kept under its options and must not be taken for another GPU's."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        found = set(re.findall(r"^\s*(\d+)\.(\d+)\s*$", done.stdout, re.MULTILINE))
    except (OSError, subprocess.TimeoutExpired):
        found = set()
    if not found:
        raise ProvisionProblem(
            f"{VARIABLE}=cuda builds for the GPUs of this machine, and nvidia-smi names none.",
            advice="set CUDAARCHS to the architectures that are wanted, such as 89 (cmake's notation)",
        )
    numbers = sorted({int(major + minor) for major, minor in found})
    return ";".join([f"{number}-real" for number in numbers])


BACKENDS = {
    backend.name: backend
    for backend in (
        GpuBackend(
            "cuda",
            ("-DGGML_CUDA=ON",),
            programs=("nvcc",),
            variable="CUDACXX",
            advice="install NVIDIA's CUDA toolkit and put its bin folder on PATH (or set CUDACXX)",
        ),
        GpuBackend(
            "metal",
            ("-DGGML_METAL=ON", "-DGGML_METAL_EMBED_LIBRARY=ON"),
            system="Darwin",
            advice="Metal is Apple's: use cuda or vulkan here",
        ),
        GpuBackend(
            "vulkan",
            ("-DGGML_VULKAN=ON",),
            programs=("glslc",),
            advice="apt-get install libvulkan-dev glslc spirv-headers (or the Vulkan SDK), and a driver",
        ),
    )
}


def wanted_backend(environment: Mapping[str, str]) -> str | None:
    """What SKIPPY_LLAMA_BACKEND asks for: `cpu` or one of BACKENDS; None where it is not set, and then
    an installed build is right whatever it was made for.

    Raises ProvisionProblem for anything else, and beside CMAKE_ARGS, which say it all themselves.
    """
    given = environment.get(VARIABLE, "").strip().lower()
    if not given:
        return None
    if given != CPU and given not in BACKENDS:
        raise ProvisionProblem(
            f"{VARIABLE}: there is no build for {given!r}.", advice=f"choose {CPU}, {', '.join(BACKENDS)}"
        )
    if environment.get("CMAKE_ARGS", "").strip():
        raise ProvisionProblem(
            f"{VARIABLE} and CMAKE_ARGS are both set, and CMAKE_ARGS would be used as they are.",
            advice=f"unset one of them; {VARIABLE}={given} adds the options for this CPU by itself",
        )
    return given
