"""Which llama.cpp build is in an environment, and whether it is the one that this machine wants.

The mark lies beside the package's own metadata and holds a digest of its RECORD (pip's list of files
and hashes): if anybody installs another build over it, the mark no longer fits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from skippy_site.provision.build_options import callers_cmake_args
from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.gpu_backend import CPU, VARIABLE, wanted_backend
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.provision.wheel_cache import file_sha256

MARK = "skippy-build.json"


@dataclass(frozen=True, slots=True)
class InstalledBuild:
    """What was installed, and for which CPU."""

    version: str
    key_digest: str
    wheel_sha256: str
    record_sha256: str
    cmake_args: str
    is_callers: bool  # made with the caller's own CMAKE_ARGS
    machine: str
    cpu_flags: tuple[str, ...]
    backend: str = CPU

    def complaint(self, version: str, cpu: Cpu, environment: Mapping[str, str]) -> str | None:
        """Why this build is not the one that is wanted now; None if it is.

        Asks no compiler, so that a machine may lose its compiler after the build. A build made with
        the caller's own CMAKE_ARGS stays while the variable is unset; set but empty asks for the
        usual build again. So does one for a GPU's backend, until another one is named.
        """
        if self.version != version:
            return f"version {self.version} is installed, {version} is wanted"
        given = callers_cmake_args(environment)
        if given:
            return (
                None if self.is_callers and self.cmake_args == given else "CMAKE_ARGS asks for another build"
            )
        backend = wanted_backend(environment)
        if backend is not None and (self.is_callers or backend != self.backend):
            return f"{VARIABLE} asks for another build ({backend})"
        if self.is_callers:
            return "CMAKE_ARGS asks for the usual build" if given == "" else None
        if self.machine != cpu.machine or self.cpu_flags != cpu.relevant_flags:
            return f"it was built for another CPU than this one ({cpu.model})"
        return None


def read_installed_build(venv: VirtualEnv, version: str) -> InstalledBuild | None:
    """The marked build in `venv`; None where llama-cpp-python is absent, unmarked or replaced."""
    metadata = metadata_folder(venv, version)
    try:
        found = json.loads((metadata / MARK).read_text())
        build = InstalledBuild(**{**found, "cpu_flags": tuple(found["cpu_flags"])})
        is_same = build.record_sha256 == file_sha256(metadata / "RECORD")
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return build if is_same else None


def mark_installed_build(venv: VirtualEnv, build: InstalledBuild) -> None:
    """Write the mark, whole or not at all."""
    mark = metadata_folder(venv, build.version) / MARK
    draft = mark.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(asdict(build), indent=2) + "\n")
    draft.replace(mark)


def metadata_folder(venv: VirtualEnv, version: str) -> Path:
    return venv.site_packages / f"llama_cpp_python-{version}.dist-info"
