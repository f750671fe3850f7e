"""The shared library itself: loaded once, quiet, and with its log lines among ours.

llama.cpp writes to stderr from any thread, its Python bindings read its log levels off by one, and
a failed assertion starts a debugger before it ends the process. All of that is set right here,
before anything else calls it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import threading
from collections.abc import Iterator
from typing import Any

# Read by ggml when an assertion fails: no gdb for a backtrace, which would delay the restart.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")
# Read by GNU OpenMP when it is loaded: how long a thread turns in circles at a barrier before it
# sleeps. A batch has hundreds of barriers, and by default a thread that waits for one that was
# preempted burns its whole time slice: with two engines on the same two cores a step takes ten times
# as long as it should. 5000 turns outlast the usual barrier and little else (docs/performance.md).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

import llama_cpp

logger = logging.getLogger("llama.cpp")

# ggml.h, enum ggml_log_level. (llama_cpp/_logger.py has INFO = 1 and so on, which is wrong.)
LEVEL_DEBUG, LEVEL_INFO, LEVEL_CONTINUE = 1, 2, 5
LOGGING_LEVELS = {
    0: logging.INFO,
    LEVEL_DEBUG: logging.DEBUG,
    LEVEL_INFO: logging.INFO,
    3: logging.WARNING,
    4: logging.ERROR,
}
# How llama.cpp says what it has reserved: "load_tensors:  CPU_Mapped model buffer size =   136.40 MiB".
BUFFER_LINE = re.compile(rb":\s*(\S+)\s+(model|LoRA|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB")
# A line that never ends is cut here.
MAX_LINE_CHARS = 2000


class LogBridge:
    """Takes llama.cpp's log, which comes in pieces of lines, and logs whole lines at their level.

    A piece of level CONT continues the line before it, on the same thread. Called from C: must
    return quickly and never raise.
    """

    def __init__(self, target: logging.Logger) -> None:
        self._target = target
        self._lines = threading.local()

    @contextlib.contextmanager
    def buffers(self) -> Iterator[list[tuple[str, str, int]]]:
        """While inside, the buffers that llama.cpp reserves on this thread are noted: the name of the
        buffer (`CPU_Mapped`, `CUDA0`, …), what is in it (`model`, `KV`, …) and its bytes. There is no
        function that tells them; its log does, whatever level is logged."""
        noted: list[tuple[str, str, int]] = []
        self._lines.noted = noted
        try:
            yield noted
        finally:
            self._lines.noted = None

    def __call__(self, level: int, text: bytes | None, _user_data: object = None) -> None:
        try:
            self._take(level, text or b"")
        except Exception:
            # ctypes could only print it, and llama.cpp has nothing to do with it.
            self._lines.text = ""

    def _take(self, level: int, text: bytes) -> None:
        lines = self._lines
        if level == LEVEL_INFO and (noted := getattr(lines, "noted", None)) is not None:
            for name, kind, size in BUFFER_LINE.findall(text):
                noted.append((name.decode(), kind.decode(), int(float(size) * 1024 * 1024)))
        if level != LEVEL_CONTINUE:
            # Building a graph writes hundreds of debug lines: leave before any work is done.
            lines.level = LOGGING_LEVELS.get(level, logging.INFO)
            lines.is_wanted = self._target.isEnabledFor(lines.level)
            lines.text = ""
        if not getattr(lines, "is_wanted", False):
            return
        lines.text += text.decode("utf-8", "replace")
        if lines.text.endswith("\n") or len(lines.text) > MAX_LINE_CHARS:
            line, lines.text = lines.text.rstrip(), ""
            if line:
                self._target.log(lines.level, "%s", line[:MAX_LINE_CHARS])


# llama.cpp keeps the pointer for ever, so the object must live as long.
log_bridge = LogBridge(logger)
log_callback = llama_cpp.llama_log_callback(log_bridge)
_start_lock = threading.Lock()
_is_started = False


def start_backend() -> None:
    """Make the library ready; the first call does it, later ones do nothing. From any thread."""
    global _is_started  # noqa: PLW0603  one library in a process
    with _start_lock:
        if _is_started:
            return
        llama_cpp.llama_log_set(log_callback, None)
        llama_cpp.llama_backend_init()
        _is_started = True


def system_info() -> str:
    """The instruction sets that this build uses, as llama.cpp lists them."""
    info: bytes = llama_cpp.llama_print_system_info()
    return info.decode("utf-8", "replace")


def has_unsafe_amx() -> bool:
    """Built with AMX: GCC 12 compiles its tile set-up wrongly, and the first batch would be SIGILL."""
    return "AMX_INT8 = 1" in system_info()


def build_name() -> str:
    """Versions of llama.cpp and of its bindings; part of a model's fingerprint."""
    version: bytes = llama_cpp.llama_version()
    return f"{version.decode()}/{llama_cpp.__version__}"


def fast_function(name: str, argument_types: list[Any], result_type: Any) -> Any:
    """A C function that keeps the interpreter's lock: for tiny calls in long loops at load time.

    The usual bindings give the lock away and take it back around every call, which costs more than
    reading one token's text.
    """
    library = ctypes.PyDLL(llama_cpp.llama_cpp._lib._name)
    function = getattr(library, name)
    function.argtypes = argument_types
    function.restype = result_type
    return function
