"""Does all that a goal needs and nothing that is done already, with the long parts side by side.

The compile keeps the cores busy while the dependencies and the model come over the network; what must
follow in order (install the build, try it out, rewrite the model's weights) takes seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skippy_site.provision.build_options import BuildOptions
from skippy_site.provision.child_processes import ChildProcesses, child_environment
from skippy_site.provision.default_model import (
    default_model_file,
    fetch_default_model,
    original_file,
    rewrite_default_model,
    rewritten_file,
)
from skippy_site.provision.llama_wheel import LlamaBuilder
from skippy_site.provision.probe import prove_build, remembered_proof
from skippy_site.provision.problem import Interrupted
from skippy_site.provision.progress import Board
from skippy_site.provision.requirement_files import DEV, RUNTIME, RequirementFile
from skippy_site.provision.virtual_env import VirtualEnv
from skippy_site.provision.wheel_cache import BuiltWheel
from skippy_site.state import CHECKOUT, StateFolder

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Goal:
    """What must be there afterwards."""

    lock: RequirementFile
    state: StateFolder
    wants_llama: bool = True
    wants_model: bool = True

    @classmethod
    def serving(cls, environment: Mapping[str, str]) -> Goal:
        """The service; a model that SKIPPY_MODEL names is fetched by the service itself."""
        has_own_model = bool(environment.get("SKIPPY_MODEL", "").strip())
        return cls(RUNTIME, StateFolder.from_environment(), wants_model=not has_own_model)

    @classmethod
    def testing(cls) -> Goal:
        """The tests take the default model from the checkout's own state folder."""
        return cls(DEV, StateFolder(CHECKOUT / ".skippy"))

    @classmethod
    def checking(cls) -> Goal:
        return cls(DEV, StateFolder(CHECKOUT / ".skippy"), wants_llama=False, wants_model=False)


class Preparation:
    """One run towards a goal. `run` returns when all is there, or raises ProvisionProblem."""

    def __init__(self, goal: Goal, venv: VirtualEnv, board: Board, children: ChildProcesses) -> None:
        self._goal = goal
        self._venv = venv
        self._board = board
        self._children = children
        self._log = goal.state.logs / "provision.log"
        self._builder = LlamaBuilder.for_this_machine(children, goal.state, self._log)

    def run(self) -> None:
        with self._only_one():
            if self._is_done():
                return
            self._start_log()
            with self._board.ticking():
                self._prepare()

    def _is_done(self) -> bool:
        goal, venv = self._goal, self._venv
        if not venv.is_usable() or not venv.has(goal.lock):
            return False
        if goal.wants_llama and (
            self._builder.complaint(venv) or not remembered_proof(venv, self._builder.cpu)
        ):
            return False
        return not goal.wants_model or rewritten_file(goal.state).is_file()

    def _prepare(self) -> None:
        self._venv.make(
            self._children, self._board.step("python"), log=self._log, environment=child_environment()
        )
        complaint = self._builder.complaint(self._venv) if self._goal.wants_llama else None
        wheel = self._side_by_side(wants_wheel=complaint is not None)
        if not self._goal.wants_llama:
            return
        llama = self._board.step("llama.cpp")
        if wheel is not None:
            llama.say(f"{complaint}: installing {wheel[0].path.name}")
            self._builder.install(self._venv, *wheel, llama)
        if not remembered_proof(self._venv, self._builder.cpu):
            llama.update("trying the build out")
            place = self._builder.cache_place(self._venv)
            proof = prove_build(self._venv, self._builder.cpu, cache_place=place)
            llama.end(f"the build decodes on this CPU ({proof.cpu_model})")
        if self._goal.wants_model and original_file(self._goal.state).is_file():
            rewrite_default_model(
                self._goal.state,
                self._children,
                self._board.step("model"),
                python=self._venv.python,
                log=self._log,
            )

    def _side_by_side(self, *, wants_wheel: bool) -> tuple[BuiltWheel, BuildOptions] | None:
        """Dependencies, the llama.cpp wheel and the model; the first failure ends the others."""
        works: list[Callable[[], object]] = []
        if not self._venv.has(self._goal.lock):
            works.append(self._install_lock)
        if self._goal.wants_model and default_model_file(self._goal.state) is None:
            works.append(self._fetch_model)
        with ThreadPoolExecutor(max_workers=3, thread_name_prefix="provision") as pool:
            building = pool.submit(self._obtain_wheel) if wants_wheel else None
            futures: list[Future[Any]] = [pool.submit(work) for work in works]
            if building:
                futures.append(building)
            try:
                wait_for_all(futures)
            except BaseException:
                self._children.stop()
                raise
        return building.result() if building else None

    def _install_lock(self) -> None:
        self._venv.install(
            self._goal.lock,
            self._children,
            self._board.step("dependencies"),
            log=self._log,
            environment=child_environment(),
            also=(RUNTIME,) if self._goal.lock == DEV else (),
        )

    def _fetch_model(self) -> None:
        fetch_default_model(
            self._goal.state,
            self._children,
            self._board.step("model"),
            python=self._venv.python,
            log=self._log,
        )

    def _obtain_wheel(self) -> tuple[BuiltWheel, BuildOptions]:
        return self._builder.obtain(self._venv.python, self._board.step("llama.cpp"))

    def _start_log(self) -> None:
        """Keep one log back."""
        self._goal.state.make()
        if self._log.exists():
            self._log.replace(self._log.with_suffix(".log.1"))

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """Two makes in one checkout would install over each other. The lock is on the folder itself."""
        folder = os.open(CHECKOUT, os.O_RDONLY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._board.print_line("another make prepares this checkout; waiting for it to end")
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def wait_for_all(futures: Sequence[Future[Any]]) -> None:
    """Wait in short turns, so that signals are seen; raises what the first failing one raised."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_EXCEPTION)
        for future in done:
            problem = future.exception()
            if problem is not None and not isinstance(problem, Interrupted):
                raise problem
    for future in futures:
        future.result()


def prepare(goal: Goal) -> Path:
    """Reach `goal`, showing progress on stderr. Returns the environment's Python."""
    venv = VirtualEnv.of_checkout()
    children = ChildProcesses()
    is_terminal = sys.stderr.isatty()
    num_columns = os.get_terminal_size(sys.stderr.fileno()).columns if is_terminal else 80
    board = Board(sys.stderr, is_terminal=is_terminal, num_columns=num_columns)
    try:
        Preparation(goal, venv, board, children).run()
    finally:
        children.stop()
    return venv.python
