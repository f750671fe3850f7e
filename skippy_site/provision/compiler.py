"""The C and C++ compilers and cmake that a build would use, and what to install where they are missing."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from skippy_site.provision.problem import ProvisionProblem

MIN_CMAKE = (3, 21)
INSTALL = "apt-get install build-essential cmake"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A pair of compilers as commands (CC may hold arguments, as in `ccache gcc`)."""

    cc: tuple[str, ...]
    cxx: tuple[str, ...]
    version: str

    def compiles(self, flag: str) -> bool:
        """Whether the C compiler accepts `flag`."""
        command = [*self.cc, flag, "-x", "c", "-fsyntax-only", "/dev/null"]
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0


def find_compiler(environment: Mapping[str, str]) -> Compiler:
    """CC and CXX, or the system's. Raises ProvisionProblem where there is none."""
    cc = _command(environment, "CC", ("cc", "gcc", "clang"))
    cxx = _command(environment, "CXX", ("c++", "g++", "clang++"))
    if cc is None or cxx is None:
        missing = " and ".join(name for name, found in (("C", cc), ("C++", cxx)) if found is None)
        raise ProvisionProblem(
            f"No {missing} compiler was found; llama.cpp is compiled on this machine.",
            advice=f"{INSTALL} (or set CC and CXX)",
        )
    return Compiler(cc, cxx, version=f"{_version(cc)}; {_version(cxx)}")


def require_cmake(environment: Mapping[str, str]) -> str:
    """The version of cmake; raises ProvisionProblem where it is missing or too old."""
    path = shutil.which("cmake", path=environment.get("PATH"))
    if path is None:
        raise ProvisionProblem("cmake was not found; llama.cpp is compiled with it.", advice=INSTALL)
    version = _version((path,))
    numbers = re.search(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < MIN_CMAKE:
        needed = ".".join(map(str, MIN_CMAKE))
        raise ProvisionProblem(
            f"cmake {needed} or later is needed; {path} says: {version}", advice="install a newer cmake"
        )
    return version


def _command(
    environment: Mapping[str, str], variable: str, candidates: tuple[str, ...]
) -> tuple[str, ...] | None:
    if given := shlex.split(environment.get(variable, "")):
        return tuple(given) if shutil.which(given[0], path=environment.get("PATH")) else None
    for candidate in candidates:
        if shutil.which(candidate, path=environment.get("PATH")):
            return (candidate,)
    return None


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as problem:
        return str(problem)
    return (done.stdout or done.stderr).strip().partition("\n")[0]
