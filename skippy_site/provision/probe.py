"""Proves an installed llama.cpp build before it is trusted with the service.

A build for another CPU, or one with a miscompiled kernel, does not raise: it ends the process at the
first decode of several tokens. So the first decode is made in a child, on a tiny model that goes
through the same kernels. The result is remembered for this build on this CPU; a start repeats nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from skippy_site.provision.child_processes import child_environment, describe_exit
from skippy_site.provision.cpu_features import Cpu
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.tiny_gguf import write_tiny_gguf
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.provision.wheel_cache import file_sha256
from skippy_site.state import CHECKOUT

TIMEOUT_S = 180.0  # it takes under a second; a machine that is swapping may need longer
AMX_MARK = "AMX_INT8 = 1"
PORTABLE = (
    "-DGGML_NATIVE=OFF -DGGML_AVX512=OFF -DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_F16C=OFF -DGGML_BMI2=OFF"
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """A build that ran here: which one, on which CPU, and what it says of itself."""

    build: str
    cpu_model: str
    cpu_flags: tuple[str, ...]
    system: str


def prove_build(venv: VirtualEnv, cpu: Cpu, *, cache_place: Path | None = None) -> ProbeResult:
    """The proof for what is installed in `venv`, made now or remembered.

    Raises ProvisionProblem that names the signal and what to do; `cache_place` is the folder that a
    bad wheel would come from again.
    """
    build = build_digest(venv)
    if remembered := remembered_proof(venv, cpu):
        return remembered
    result = ProbeResult(
        build, cpu.model, cpu.relevant_flags, run_trial(venv.python, cache_place=cache_place)
    )
    venv.stamps.mkdir(exist_ok=True)
    draft = venv.stamps / f"probe.{os.getpid()}"
    draft.write_text(json.dumps(asdict(result), indent=2) + "\n")
    draft.replace(_record(venv))
    return result


def remembered_proof(venv: VirtualEnv, cpu: Cpu) -> ProbeResult | None:
    """What an earlier probe found, if it was of this very build on a CPU like this one."""
    try:
        found = json.loads(_record(venv).read_text())
        result = ProbeResult(**{**found, "cpu_flags": tuple(found["cpu_flags"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
    is_same_cpu = (result.cpu_model, result.cpu_flags) == (cpu.model, cpu.relevant_flags)
    return result if is_same_cpu and result.build == build_digest(venv) else None


def build_digest(venv: VirtualEnv) -> str:
    """SHA-256 of pip's list of the installed build's files and their hashes."""
    records = sorted(venv.site_packages.glob("llama_cpp_python-*.dist-info/RECORD"))
    if not records:
        raise ProvisionProblem("llama-cpp-python is not installed", advice="`make serve` builds it")
    return file_sha256(records[-1])


def run_trial(python: Path, *, cache_place: Path | None = None) -> str:
    """Decode in a child; returns what the build says of itself, raises ProvisionProblem if it dies."""
    with tempfile.TemporaryDirectory(prefix="skippy-probe-") as folder:
        model = Path(folder) / "tiny.gguf"
        write_tiny_gguf(model)
        try:
            done = subprocess.run(
                [python, "-m", "skippy_site.provision.decode_trial", model],
                env=child_environment(PYTHONPATH=str(CHECKOUT), GGML_NO_BACKTRACE="1"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProvisionProblem(
                f"The llama.cpp build did not decode 96 tokens within {TIMEOUT_S:.0f} s.",
                advice="look for a machine that is swapping or stopped; then run it again",
            ) from None
    return judge_trial(done.returncode, done.stdout, done.stderr, cache_place=cache_place)


def judge_trial(code: int, output: str, errors: str, *, cache_place: Path | None = None) -> str:
    """What a trial's end means. Returns the build's description; raises ProvisionProblem."""
    again = f"delete {cache_place} and run it again" if cache_place else "run `make clean`, then again"
    if code < 0:
        raise ProvisionProblem(
            f"The llama.cpp build ended the process that tried it ({describe_exit(code)}{_meaning(-code)}).",
            advice=f"{again}, so that it is built anew for this CPU. If that ends the same way, build it "
            f"without the newer instruction sets: CMAKE_ARGS='{PORTABLE}' make serve",
        )
    try:
        answer = json.loads(output.strip().rpartition("\n")[2])
        is_ok = bool(answer["ok"])
    except (ValueError, KeyError, TypeError):
        last = errors.strip().rpartition("\n")[2] or "it said nothing"
        raise ProvisionProblem(
            f"The llama.cpp build could not be tried ({describe_exit(code)}): {last}", advice=again
        ) from None
    if not is_ok:
        raise ProvisionProblem(f"The llama.cpp build does not work: {answer['reason']}.", advice=again)
    system = str(answer["system"])
    if AMX_MARK in system:
        raise ProvisionProblem(
            "The llama.cpp build uses AMX, which compilers such as GCC 12 build wrongly: it can end the "
            "process at any decode.",
            advice=f"{again} without -DGGML_NATIVE=ON and -DGGML_AMX_… in CMAKE_ARGS, and not by a plain "
            "`pip install llama-cpp-python`",
        )
    return system


def _meaning(number: int) -> str:
    if number == signal.SIGILL:
        return ": it uses an instruction that this CPU does not have, or uses it wrongly"
    if number in (signal.SIGSEGV, signal.SIGBUS):
        return ": it reached for memory that is not its own"
    if number == signal.SIGABRT:
        return ": one of its own checks failed"
    if number == signal.SIGKILL:
        return ": the system ended it, perhaps for lack of memory"
    return ""


def _record(venv: VirtualEnv) -> Path:
    return venv.stamps / "probe.json"
