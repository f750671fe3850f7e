"""Another process tries what may be the end of a process: a file that llama.cpp would trust too far.

Its libraries end with abort() or read address 0 where a file is not as they expect it. No exception can be
caught then, but a child's end can be read.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from inference.engine.load_error import ModelLoadError

logger = logging.getLogger(__name__)

# Encoding a picture, or reading all weights once, takes a while on a slow machine.
TIMEOUT_S = 300.0
REFUSED = 3
"""The exit code of a trial that says in its last line of stderr what is wrong."""
_ROOT = Path(__file__).parents[3]
_NUM_SHOWN_LINES = 8
# The server may need all of the GPU's memory for the model.
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def run_trial(module: str, arguments: Sequence[str], *, subject: str) -> None:
    """Run `python -m module arguments`; raises ModelLoadError where it refuses, or ends in any other way than
    well. `subject` is what is tried, as the beginning of a sentence."""
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, timeout=TIMEOUT_S, check=False, env=os.environ | _NO_GPU
        )
    except subprocess.TimeoutExpired:
        raise ModelLoadError(f"{subject} needs more than {TIMEOUT_S:g} s to be tried.") from None
    if done.returncode == 0:
        return
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode == REFUSED and lines:
        raise ModelLoadError(lines[-1])
    for line in lines[-_NUM_SHOWN_LINES:]:
        logger.error("trial of %s: %s", subject, line)
    how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
    raise ModelLoadError(
        f"{subject} ends the process that works with it ({how}): the file is damaged, or of a kind that this "
        "build of llama.cpp cannot use (see the log)."
    )


def refuse(reason: str) -> int:
    """Say why, in the trial's own process; its exit code."""
    sys.stderr.write(f"{reason}\n")
    return REFUSED
