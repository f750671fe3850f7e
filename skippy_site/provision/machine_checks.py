"""Checks of the machine itself, possible before anything is installed: standard library only."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skippy_site.provision.compiler import find_compiler, require_cmake
from skippy_site.provision.cpu_features import Cpu, read_cpu
from skippy_site.provision.default_model import default_model_file
from skippy_site.provision.findings import Check, Finding, ok, problem, warning
from skippy_site.provision.gpu_backend import CPU
from skippy_site.provision.installed_build import read_installed_build
from skippy_site.provision.memory import memory_bytes
from skippy_site.provision.model_source import HUB_PREFIX
from skippy_site.provision.probe import remembered_proof, run_trial
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.requirement_files import LLAMA, RUNTIME
from skippy_site.provision.virtual_env import VirtualEnv, require_venv_module
from skippy_site.state import StateFolder

GB = 1_000_000_000
LEAST_FREE_DISK_BYTES = 1 * GB  # below it Postgres and the model's rewriting are at risk
GOOD_FREE_DISK_BYTES = 4 * GB  # the environment (1 GB), the build, the models
SERVICES_BYTES = 700_000_000  # resident: web, worker, beat, Postgres and Valkey, without the model
DEFAULT_MODEL_BYTES = 145_000_000
LEAST_OPEN_FILES = 4096


@dataclass(frozen=True, slots=True)
class MachineChecks:
    """One machine, one checkout, one state folder."""

    environment: Mapping[str, str]
    venv: VirtualEnv
    state: StateFolder
    cpu: Cpu

    @classmethod
    def here(cls) -> MachineChecks:
        return cls(os.environ, VirtualEnv.of_checkout(), StateFolder.from_environment(), read_cpu())

    def all(self) -> list[tuple[str, Check]]:
        return [
            ("Python", self.python),
            ("environment", self.virtual_environment),
            ("compiler", self.compiler),
            ("CPU", self.processor),
            ("llama.cpp", self.llama_build),
            ("memory", self.memory),
            ("disk", self.disk),
            ("open files", self.open_files),
        ]

    def python(self) -> Iterator[Finding]:
        version = ".".join(map(str, sys.version_info[:3]))
        if sys.version_info < (3, 11):  # noqa: UP036 (it may be run by any)
            yield problem("Python", f"{version} is too old", "install Python 3.11: make serve PYTHON=…")
        else:
            yield ok("Python", f"{version} ({sys.executable})")

    def virtual_environment(self) -> Iterator[Finding]:
        if not self.venv.is_usable():
            try:
                require_venv_module()
            except ProvisionProblem as missing:
                yield problem("environment", str(missing), missing.advice)
                return
            yield warning("environment", "there is no .venv yet", "`make serve` makes it")
        elif not self.venv.has(RUNTIME):
            yield warning(
                "environment", "it is not what requirements/runtime.txt asks for", "`make serve` installs it"
            )
        else:
            yield ok("environment", f"{self.venv.folder.name} holds what requirements/runtime.txt asks for")

    def compiler(self) -> Iterator[Finding]:
        # Without a compiler a machine can serve, if the build is installed already.
        has_build = self._has_build()
        try:
            compiler = find_compiler(self.environment)
            yield ok("compiler", compiler.version)
        except ProvisionProblem as missing:
            yield (warning if has_build else problem)("compiler", str(missing), missing.advice)
        try:
            yield ok("cmake", require_cmake(self.environment))
        except ProvisionProblem as missing:
            yield (warning if has_build else problem)("cmake", str(missing), missing.advice)

    def processor(self) -> Iterator[Finding]:
        shown = " ".join(self.cpu.relevant_flags) or "none that the build can use"
        num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        yield ok("CPU", f"{self.cpu.model}, {num_cores} cores for us; {shown}")
        if self.cpu.has_amx:
            yield ok("AMX", "the CPU has it; the build leaves it out on purpose (GCC 12 compiles it wrongly)")
        if self.cpu.machine == "x86_64" and "avx2" not in self.cpu.flags:
            yield warning("CPU", "it has no AVX2: prompts will be read slowly", "use a newer CPU if you can")

    def llama_build(self) -> Iterator[Finding]:
        if not self.venv.is_usable() or not list(self.venv.site_packages.glob("llama_cpp/__init__.py")):
            yield warning("llama.cpp", "it is not built yet", "`make serve` builds it (4 to 8 minutes)")
            return
        version = LLAMA.only_version()
        installed = read_installed_build(self.venv, version)
        if installed is None:
            yield warning(
                "llama.cpp",
                "the installed build is not one of ours; it may be for another CPU",
                "`make serve` replaces it",
            )
        elif complaint := installed.complaint(version, self.cpu, self.environment):
            yield warning("llama.cpp", complaint, "`make serve` replaces it")
        else:
            kind = "your CMAKE_ARGS" if installed.is_callers else "this CPU"
            kind += "" if installed.backend == CPU else f" and {installed.backend}"
            yield ok("llama.cpp", f"llama-cpp-python {version}, built for {kind}")
        if remembered := remembered_proof(self.venv, self.cpu):
            yield ok("llama.cpp", f"it was tried on this CPU: {remembered.system.strip(' |')}")
            return
        try:
            system = run_trial(self.venv.python)
        except ProvisionProblem as failure:
            yield problem("llama.cpp", str(failure), failure.advice)
        else:
            yield ok("llama.cpp", f"tried just now, it decodes: {system.strip(' |')}")

    def memory(self) -> Iterator[Finding]:
        total_bytes, available_bytes = memory_bytes()
        model_bytes, name = self._model()
        if total_bytes is None or available_bytes is None:
            yield warning("memory", "how much there is cannot be told on this system")
            return
        needed_bytes = model_bytes + SERVICES_BYTES
        text = (
            f"{available_bytes / GB:.1f} of {total_bytes / GB:.1f} GB are free; the services and {name} need "
            f"{needed_bytes / GB:.1f} GB, and KV cells beside"
        )
        advice = (
            "stop other programs, choose a smaller model (SKIPPY_MODEL) or fewer KV cells (SKIPPY_CONTEXT)"
        )
        if needed_bytes > total_bytes:
            yield problem("memory", text, advice)
        elif needed_bytes > available_bytes:
            yield warning("memory", text, advice)
        else:
            yield ok("memory", text)

    def disk(self) -> Iterator[Finding]:
        place = self.state.root
        while not place.exists():
            place = place.parent
        free_bytes = shutil.disk_usage(place).free
        text = f"{free_bytes / GB:.1f} GB are free in {place}"
        advice = "free some space, or move the state folder (SKIPPY_HOME)"
        if free_bytes < LEAST_FREE_DISK_BYTES:
            yield problem("disk", text, advice)
        elif free_bytes < GOOD_FREE_DISK_BYTES:
            yield warning("disk", text, advice)
        else:
            yield ok("disk", text)

    def open_files(self) -> Iterator[Finding]:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        if hard != resource.RLIM_INFINITY and hard < LEAST_OPEN_FILES:
            advice = "raise LimitNOFILE (systemd) or nofile in /etc/security/limits.conf"
            yield warning("open files", f"{soft}, at most {shown}: too few for many connections", advice)
        else:
            yield ok("open files", f"{soft}, at most {shown}")

    def _has_build(self) -> bool:
        return self.venv.is_usable() and read_installed_build(self.venv, LLAMA.only_version()) is not None

    def _model(self) -> tuple[int, str]:
        """Bytes and name of the model that would be loaded, as far as it is here."""
        file = chosen_model_file(self.environment, self.state)
        if file is not None:
            return file.stat().st_size, file.name
        given = self.environment.get("SKIPPY_MODEL", "").strip()
        return (0, "the model (not fetched yet)") if given else (DEFAULT_MODEL_BYTES, "the default model")


def chosen_model_file(environment: Mapping[str, str], state: StateFolder) -> Path | None:
    """The model that would be loaded; None where it is not here yet."""
    given = environment.get("SKIPPY_MODEL", "").strip()
    if given and not given.startswith(HUB_PREFIX):
        file: Path | None = Path(given).expanduser()
    elif given:
        named = given.rpartition("/")[2].partition("@")[0]
        file = next((state.models / "hub").rglob(named), None)
    else:
        file = default_model_file(state)
    return file if file is not None and file.is_file() else None
