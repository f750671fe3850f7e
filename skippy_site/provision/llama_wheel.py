"""Builds llama-cpp-python for this machine's CPU, keeps the wheel, and installs it apart from the lock.

The package comes as source only. Its default build may be deadly (see cpu_features), and pip's wheel
cache would hand a wheel from one CPU to another, so the build is ours from end to end: the source's
hash is pinned (requirements/llama.txt), the tools that build it are pinned (requirements/build.txt),
the options are named, and the result goes into a cache that knows what it was built for.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skippy_site.provision.build_options import SKIP_COMMON, BuildOptions, callers_cmake_args, choose_build
from skippy_site.provision.child_processes import ChildProcesses, child_environment, pip_command
from skippy_site.provision.compiler import Compiler, find_compiler, require_cmake
from skippy_site.provision.cpu_features import Cpu, read_cpu
from skippy_site.provision.gpu_backend import BACKENDS, wanted_backend
from skippy_site.provision.installed_build import (
    InstalledBuild,
    mark_installed_build,
    metadata_folder,
    read_installed_build,
)
from skippy_site.provision.memory import memory_bytes
from skippy_site.provision.progress import Step
from skippy_site.provision.requirement_files import BUILD, LLAMA
from skippy_site.provision.virtual_env import NETWORK_ADVICE, VirtualEnv
from skippy_site.provision.wheel_cache import BuiltWheel, WheelCache, file_sha256
from skippy_site.state import StateFolder

# How ninja ("[12/136] g++ …") and make ("[ 45%] Building …") count.
NINJA_STEP = re.compile(r"\s*\[(\d+)/(\d+)\]")
MAKE_STEP = re.compile(r"\s*\[\s*(\d+)%\]")
BYTES_PER_COMPILE = 900 * 1024 * 1024  # the largest object took 0.75 GB

BUILD_ADVICE = (
    "read the first 'error:' in the log. The usual causes are a compiler that is too old (install a newer "
    "g++) and too little memory ('Killed': set CMAKE_BUILD_PARALLEL_LEVEL=1). Your own CMAKE_ARGS, if set, "
    "are used as they are."
)


@dataclass(frozen=True, slots=True)
class LlamaBuilder:
    """Gets a wheel for one machine: out of the cache, or by compiling it."""

    cpu: Cpu
    cache: WheelCache
    children: ChildProcesses
    log: Path
    environment: Mapping[str, str]
    version: str

    @classmethod
    def for_this_machine(cls, children: ChildProcesses, state: StateFolder, log: Path) -> LlamaBuilder:
        cache = WheelCache.of_user(os.environ, otherwise=state.root / "cache" / "wheels")
        return cls(read_cpu(), cache, children, log, os.environ, LLAMA.only_version())

    def complaint(self, venv: VirtualEnv) -> str | None:
        """Why `venv` needs another build than it has; None if it has the right one."""
        installed = read_installed_build(venv, self.version)
        if installed is None:
            return "this machine has no build yet"
        return installed.complaint(self.version, self.cpu, self.environment)

    def cache_place(self, venv: VirtualEnv) -> Path | None:
        """Where the build in `venv` came from, if it is one of ours."""
        installed = read_installed_build(venv, self.version)
        return self.cache.folder / f"{self.version}-{installed.key_digest}" if installed else None

    def obtain(self, python: Path, step: Step) -> tuple[BuiltWheel, BuildOptions]:
        """The wheel for this machine; compiles it where the cache has none. May take ten minutes."""
        compiler = find_compiler(self.environment)
        options = self._options(compiler)
        if found := self.cache.find(options.key):
            return found, options
        require_cmake(self.environment)
        if backend := BACKENDS.get(options.backend):
            backend.require(self.cpu.system, self.environment)

        def waiting() -> None:
            step.update("waits for another build of the same to end")

        with self.cache.building(options.key, waiting=waiting) as scratch:
            if found := self.cache.find(options.key):
                step.end("built meanwhile by another process")
                return found, options
            started_ts = time.monotonic()
            wheel = self._compile(python, compiler, scratch, step)
            built = self.cache.publish(options.key, wheel, notes={"cpu": self.cpu.model})
        step.end(f"compiled in {_minutes(time.monotonic() - started_ts)}, kept in {built.path.parent}")
        return built, options

    def install(self, venv: VirtualEnv, wheel: BuiltWheel, options: BuildOptions, step: Step) -> None:
        """Put the wheel into `venv` in place of whatever build is there, and mark it."""
        step.update("installing")
        self.children.run(
            pip_command(venv.python, "install", "--no-deps", "--no-index", "--force-reinstall", wheel.path),
            log=self.log,
            environment=child_environment(self.environment),
            what="Installing the built llama-cpp-python",
            advice=f"delete {wheel.path.parent} and run it again",
        )
        build = InstalledBuild(
            version=self.version,
            key_digest=wheel.key_digest,
            wheel_sha256=wheel.sha256,
            record_sha256=file_sha256(metadata_folder(venv, self.version) / "RECORD"),
            cmake_args=options.cmake_args,
            is_callers=options.is_callers,
            machine=self.cpu.machine,
            cpu_flags=self.cpu.relevant_flags,
            backend=options.backend,
        )
        mark_installed_build(venv, build)
        step.end("installed")

    def _options(self, compiler: Compiler, scratch: Path | None = None) -> BuildOptions:
        return choose_build(self.version, self.cpu, compiler, self.environment, scratch=scratch)

    def _compile(self, python: Path, compiler: Compiler, scratch: Path, step: Step) -> Path:
        purpose = "with your CMAKE_ARGS" if callers_cmake_args(self.environment) else f"for {self.cpu.model}"
        if backend := wanted_backend(self.environment):
            purpose += f", backend {backend}"
        step.say(f"compiling {purpose}; for a CPU this takes 4 to 8 minutes on 2 cores, for a GPU longer")
        step.update("fetching the build tools")
        tools = scratch / "tools"
        temporary = scratch / "tmp"
        temporary.mkdir()
        shutil.copyfile(SKIP_COMMON, scratch / SKIP_COMMON.name)
        plain = child_environment(self.environment, TMPDIR=str(temporary))
        self.children.run(
            pip_command(python, "install", "--require-hashes", "--target", tools, "-r", BUILD.path),
            log=self.log,
            environment=plain,
            what="Fetching the build tools",
            advice=NETWORK_ADVICE,
        )
        step.update("fetching the source")
        self.children.run(
            pip_command(
                python,
                "wheel",
                *("--verbose", "--no-deps", "--no-cache-dir", "--no-binary", ":all:"),
                *("--no-build-isolation", "--require-hashes", "-r", LLAMA.path),
                *("--wheel-dir", scratch / "wheel"),
            ),
            log=self.log,
            environment={
                **plain,
                "CMAKE_ARGS": self._options(compiler, scratch).cmake_args,
                "CMAKE_BUILD_PARALLEL_LEVEL": plain.get("CMAKE_BUILD_PARALLEL_LEVEL", str(num_jobs())),
                "PYTHONPATH": str(tools),
                "PATH": f"{tools / 'bin'}{os.pathsep}{plain.get('PATH', os.defpath)}",
            },
            what="Compiling llama-cpp-python",
            advice=BUILD_ADVICE,
            on_line=CompileProgress(step).see,
        )
        (wheel,) = (scratch / "wheel").glob("llama_cpp_python-*.whl")
        return wheel


class CompileProgress:
    """Turns the build's own step numbers into a percentage and the time that is left."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._started_ts: float | None = None

    def see(self, line: str) -> None:
        if ninja := NINJA_STEP.match(line):
            done, total = int(ninja[1]), int(ninja[2])
            self._show(done / total if total else 0.0, f" ({done} of {total})")
        elif make := MAKE_STEP.match(line):
            self._show(int(make[1]) / 100, "")
        elif line.strip().startswith("*** Configuring CMake"):
            self._step.update("configuring")

    def _show(self, share: float, detail: str) -> None:
        if self._started_ts is None:
            self._started_ts = time.monotonic()
        elapsed_s = time.monotonic() - self._started_ts
        # The first objects are the cheap ones: a guess from them would be far too short.
        left = f", about {_minutes(elapsed_s / share - elapsed_s)} left" if share > 0.2 else ""
        self._step.update(f"compiling {share:.0%}{detail}{left}")


def num_jobs() -> int:
    """Compilers at once: one more than the cores, as far as the memory goes."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    _, available_bytes = memory_bytes()
    if available_bytes is None:
        return num_cores
    return max(1, min(num_cores + 1, available_bytes // BYTES_PER_COMPILE))


def _minutes(seconds: float) -> str:
    return (
        f"{int(seconds) // 60} min {int(seconds) % 60:02d} s" if seconds >= 60 else f"{max(seconds, 0):.0f} s"
    )
