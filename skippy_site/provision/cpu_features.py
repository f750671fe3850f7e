"""Chooses ggml's instruction sets for this machine's CPU, because a native build can be a deadly one.

With GGML_NATIVE, GCC 12 on a CPU with AMX makes a build that dies with SIGILL at the first decode of
several tokens: it drops the stores that fill the tile configuration (ggml-org/llama.cpp#26954).
So the native choice is off, every x86 option is named ON or OFF (ggml's own defaults
depend on GGML_NATIVE and on SOURCE_DATE_EPOCH), and AMX never is on. On aarch64 `-march` is named,
since GCC 12 puts `+dotprod` after `armv8-a` on CPUs that it does not know, and that does not compile
(ggml-org/llama.cpp#27982).

Sources: ggml/CMakeLists.txt (options and their flags), /proc/cpuinfo's spelling (Linux,
arch/x86/include/asm/cpufeatures.h).
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

AVX512 = "avx512f avx512cd avx512vl avx512dq avx512bw"
# ggml's option: (flags of /proc/cpuinfo that it needs, the compiler's flag that it adds)
X86_OPTIONS: dict[str, tuple[str, str]] = {
    "GGML_SSE42": ("sse4_2", "-msse4.2"),
    "GGML_AVX": ("avx", "-mavx"),
    "GGML_F16C": ("avx f16c", "-mf16c"),
    "GGML_FMA": ("avx fma", "-mfma"),
    "GGML_BMI2": ("bmi2", "-mbmi2"),
    "GGML_AVX2": ("avx avx2", "-mavx2"),
    "GGML_AVX_VNNI": ("avx2 avx_vnni", "-mavxvnni"),
    "GGML_AVX512": (AVX512, "-mavx512f"),
    "GGML_AVX512_VBMI": (f"{AVX512} avx512vbmi", "-mavx512vbmi"),
    "GGML_AVX512_VNNI": (f"{AVX512} avx512_vnni", "-mavx512vnni"),
    "GGML_AVX512_BF16": (f"{AVX512} avx512_bf16", "-mavx512bf16"),
}
AMX_OPTIONS = ("GGML_AMX_TILE", "GGML_AMX_INT8", "GGML_AMX_BF16")
# suffix of -march: the flags that it needs; all of them compile on top of armv8.2-a
ARM_SUFFIXES = {"fp16": "fphp asimdhp", "dotprod": "asimddp", "i8mm": "i8mm", "sve": "sve"}

RELEVANT_FLAGS = frozenset(
    flag
    for needs in (*(needs for needs, _ in X86_OPTIONS.values()), *ARM_SUFFIXES.values())
    for flag in needs.split()
)


@dataclass(frozen=True, slots=True)
class Cpu:
    """What a machine's processors all can do."""

    system: str
    machine: str
    model: str
    flags: frozenset[str]

    @property
    def relevant_flags(self) -> tuple[str, ...]:
        """Those that change the build, sorted: what makes two machines the same to it."""
        return tuple(sorted(self.flags & RELEVANT_FLAGS))

    @property
    def has_amx(self) -> bool:
        return any(flag.startswith("amx_") for flag in self.flags)


def read_cpu(
    cpuinfo: Path = Path("/proc/cpuinfo"), *, system: str | None = None, machine: str | None = None
) -> Cpu:
    """This machine's CPU: the flags that all of its processors have."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        lines = []
    sets = [frozenset(_value(line).split()) for line in lines if re.match(r"(flags|Features)\s*:", line)]
    return Cpu(
        system=system or platform.system(),
        machine=machine or platform.machine(),
        model=_model(lines) or platform.processor() or "unknown",
        flags=frozenset.intersection(*sets) if sets else frozenset(),
    )


def cmake_options(cpu: Cpu, compiles: Callable[[str], bool]) -> tuple[str, ...]:
    """The options for cmake. `compiles` tells whether the compiler knows a flag (old ones lack some)."""
    if cpu.system != "Linux" or cpu.machine not in ("x86_64", "aarch64"):
        return ("-DGGML_NATIVE=ON",)
    if cpu.machine == "aarch64":
        return ("-DGGML_NATIVE=OFF", f"-DGGML_CPU_ARM_ARCH={arm_architecture(cpu)}")
    wanted = {
        option: cpu.flags >= set(needs.split()) and compiles(flag)
        for option, (needs, flag) in X86_OPTIONS.items()
    }
    wanted.update(dict.fromkeys(AMX_OPTIONS, False))
    return (
        "-DGGML_NATIVE=OFF",
        *(f"-D{option}={'ON' if is_on else 'OFF'}" for option, is_on in wanted.items()),
    )


def arm_architecture(cpu: Cpu) -> str:
    """The value for -march: armv8.2-a with what the CPU has, or the baseline without both halves."""
    suffixes = [name for name, needs in ARM_SUFFIXES.items() if cpu.flags >= set(needs.split())]
    return "+".join(["armv8.2-a", *suffixes]) if {"fp16", "dotprod"} <= set(suffixes) else "armv8-a"


def _model(lines: list[str]) -> str:
    """x86 names it; aarch64 gives numbers, which tell two CPUs apart as well."""
    for line in lines:
        if line.startswith("model name"):
            return _value(line)
    parts = {line.split(":")[0].strip(): _value(line) for line in lines if line.startswith("CPU ")}
    return " ".join(f"{name.removeprefix('CPU ')} {value}" for name, value in sorted(parts.items()))


def _value(line: str) -> str:
    return line.partition(":")[2].strip()
