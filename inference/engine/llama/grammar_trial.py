"""Is a grammar harmless? Tried in a process of its own, which may hang, swell or die of it.

llguidance bounds most of what a grammar can cost, but not all. Found by trying, with 1.9.1: a chain of
1,500 definitions overflows a stack of 8 MiB; `allOf` of twenty patterns takes two minutes and 2 GiB to
be told from an empty language; 30,000 times `a?` take 30 s and 3.5 GiB; intersected `multipleOf`s
never end. In the process that serves, each would end or stop everybody. What passes here, within a few
seconds and some hundred megabytes, passes there again.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from inference.domain.constraint import ConstraintRefused
from inference.domain.errors import ServiceUnavailable

logger = logging.getLogger(__name__)

_LENGTH = struct.Struct("<I")
_SCRIPT = Path(__file__).with_name("grammar_trial_process.py")
# The stack is reserved, not used; what compiles in this process must have more (constraints.py).
STACK_BYTES = 192 * 1024 * 1024
MAX_MEMORY_BYTES = 1024 * 1024 * 1024
MAX_CPU_S = 2
# Of the first few tokens.
MAX_WALK_S = 0.3
# On a busy machine CPU time is longer on the clock.
MAX_WAIT_S = 20.0
_MAX_ANSWER_BYTES = 16 * 1024 * 1024

MAX_MESSAGE_CHARS = 400
_SNIPPET = re.compile(r"\s*(\d+ \||\^+\s*$)")

TOO_COSTLY = "It is too complex."


class GrammarTrial:
    """Thread-safe; one grammar at a time. The process is started when it is first needed, and again after
    one that died; it ends with `close()`, or when its owner is gone."""

    def __init__(
        self,
        *,
        num_tokens: int,
        control_texts: Mapping[int, str],
        end_token_ids: Sequence[int],
        limits: Mapping[str, Any],
        max_cpu_s: int = MAX_CPU_S,
    ) -> None:
        self._setup = json.dumps(
            {
                "num_tokens": num_tokens,
                "controls": dict(control_texts),
                "end_token_ids": list(end_token_ids),
                "limits": dict(limits),
                "max_cpu_s": max_cpu_s,
                "max_walk_s": MAX_WALK_S,
                "too_costly": TOO_COSTLY,
                "max_memory_bytes": MAX_MEMORY_BYTES,
            }
        ).encode()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[Any, Any] | None = None
        self._is_closed = False

    def check(self, grammar: str) -> None:
        """Raises ConstraintRefused with llguidance's words, or where it is too costly."""
        self._ask("g", grammar)

    def lark_of(self, gbnf: str) -> str:
        """The same grammar in Lark's notation; raises as `check`."""
        return self._ask("b", gbnf)[1:]

    def _ask(self, kind: str, text: str) -> str:
        with self._lock:
            if self._is_closed:
                raise ServiceUnavailable("The service is shutting down.")
            try:
                process = self._started()
            except OSError as problem:
                self._kill()
                logger.error("the process that tries grammars cannot be started: %s", problem)
                raise ServiceUnavailable("The form of answers cannot be prepared now.") from None
            try:
                _write(process, (kind + text).encode())
                answer = _read(process, time.monotonic() + MAX_WAIT_S)
            except (OSError, EOFError, TimeoutError) as problem:
                self._kill()
                logger.warning("a grammar was too costly: %s", type(problem).__name__)
                raise ConstraintRefused(TOO_COSTLY) from None
            except BaseException:
                self._kill()
                raise
            if answer.startswith("w"):
                self._kill()
        answer = answer[1:]
        if answer.startswith("-"):
            raise ConstraintRefused(message_of(answer[1:]))
        return answer

    def close(self) -> None:
        """End the process. Later calls do nothing."""
        with self._lock:
            self._is_closed = True
            self._kill()

    def _started(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is not None and process.poll() is None:
            return process
        self._kill()
        process = subprocess.Popen(
            [sys.executable, "-I", str(_SCRIPT), str(STACK_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            bufsize=0,
        )
        self._process = process
        self._end = weakref.finalize(self, _end_process, process)
        _write(process, self._setup)
        return process

    def _kill(self) -> None:
        if self._end is not None:
            self._end()
        self._process = self._end = None


def message_of(problem: str) -> str:
    """What may be told of llguidance's words: one line of bounded length, without the lines of grammar that
    it points into, and without internals."""
    if problem.startswith("panic:"):
        return TOO_COSTLY
    words = problem.partition("<backtrace>")[0].partition("<non-verbose/>")[0]
    lines = [line.strip() for line in words.splitlines() if not _SNIPPET.match(line)]
    return " ".join(filter(None, lines))[:MAX_MESSAGE_CHARS] or TOO_COSTLY


def _write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(process.stdin.fileno(), view) :]


def _read(process: subprocess.Popen[bytes], deadline_ts: float) -> str:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    length = _LENGTH.unpack(_read_exactly(descriptor, _LENGTH.size, deadline_ts))[0]
    if length > _MAX_ANSWER_BYTES:
        raise EOFError
    return _read_exactly(descriptor, length, deadline_ts).decode("utf-8", "replace")


def _read_exactly(descriptor: int, size: int, deadline_ts: float) -> bytes:
    data = b""
    while len(data) < size:
        is_ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline_ts - time.monotonic()))
        if not is_ready:
            raise TimeoutError
        part = os.read(descriptor, size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
