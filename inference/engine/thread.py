"""The thread that owns a model's context: it steps while there is work and sleeps while there is none.

llama.cpp lets one thread at a time use a context, and OpenMP's workers belong to the thread that
decodes. So the context is made, used and freed here, and everybody else leaves messages.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from inference.domain.admission import AdmissionSource, EventSink, Submission
from inference.domain.backend import HoldReason
from inference.domain.clock import Clock
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Event, Failed
from inference.engine.config import EngineConfig
from inference.engine.core import EngineCore
from inference.engine.lanes import LaneStatistics
from inference.engine.model_runner import ModelRunner
from inference.engine.stats import EngineStatistics

logger = logging.getLogger(__name__)

# A sleeping engine looks up this often even if nobody woke it: rules of admission may depend on time.
IDLE_WAKEUP_S = 1.0
# How long a thread that wants the interpreter lets another one keep it. The default of 5 ms is half
# a step of a small model, and the engine asks for the interpreter after every long call.
SWITCH_INTERVAL_S = 0.0005
# How long a stop waits for a thread that ended by a fault, or hangs.
DEAD_PATIENCE_S = 2.0

STOPPING_MESSAGE = "The model is being unloaded, or the service is shutting down."
DEAD_MESSAGE = "The engine has stopped after a fault."


class EngineState(Enum):
    """NEW ──▶ LOADING ──▶ RUNNING ──▶ STOPPED; any fault on the way leads to DEAD, which stays."""

    NEW = "new"
    LOADING = "loading"
    RUNNING = "running"
    STOPPED = "stopped"
    DEAD = "dead"


def _no_runner() -> ModelRunner:
    raise RuntimeError("an engine can be started once")


def _nobody_reads(_events: list[tuple[EventSink, Event]]) -> None:
    pass


def _nobody_hears(_error: ServiceUnavailable) -> None:
    pass


class EngineThread:
    """Runs an EngineCore from `start()` to `stop()`.

    `make_runner` is called on the engine thread and may take long (it makes the context). When the
    loop ends, whatever the reason, admission is closed with ServiceUnavailable and everything that
    runs or waits gets that error, so that nobody waits for an engine that is gone.
    """

    def __init__(
        self,
        make_runner: Callable[[], ModelRunner],
        config: EngineConfig,
        admission: AdmissionSource,
        clock: Clock,
        *,
        idle_wakeup_s: float = IDLE_WAKEUP_S,
    ) -> None:
        self.clock = clock
        self._idle_wakeup_s = idle_wakeup_s
        self._make_runner = make_runner
        self._config = config
        self._admission = admission
        self._thread = threading.Thread(target=self._main, name="skippy-engine", daemon=True)
        self._state = EngineState.NEW
        self._error: BaseException | None = None
        self._core: EngineCore | None = None
        self._runner: ModelRunner | None = None
        self._last_statistics = EngineStatistics(
            is_alive=False, lanes=LaneStatistics(num_lanes=config.num_lanes, num_used=0)
        )
        self._is_ready = threading.Event()
        self._is_idle = threading.Event()
        self._wakeup = threading.Event()
        # Idle is only what nobody has woken since: both are looked at and changed together.
        self._idle_lock = threading.Lock()
        self._is_stopping = False
        self._total_turns = 0
        self._total_integrity_faults = 0
        self._num_checked_steps = 0
        self._deliver: Callable[[list[tuple[EventSink, Event]]], None] = _nobody_reads
        self._on_end: Callable[[ServiceUnavailable], None] = _nobody_hears

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def is_alive(self) -> bool:
        """It serves. False while loading, after a stop and after a fault."""
        return self._state is EngineState.RUNNING

    @property
    def can_speculate(self) -> bool:
        """Whether rejected tokens can be taken out of the model's memory again. Known once it serves."""
        runner = self._runner
        return runner is not None and runner.can_share_prefixes

    @property
    def statistics(self) -> EngineStatistics:
        """A snapshot, from any thread; the last one after the engine has ended."""
        core = self._core
        return self._last_statistics if core is None else self._snapshot(core, is_alive=self.is_alive)

    def _snapshot(self, core: EngineCore, *, is_alive: bool) -> EngineStatistics:
        return replace(
            core.statistics(is_alive=is_alive),
            total_turns=self._total_turns,
            total_integrity_faults=self._total_integrity_faults,
        )

    # -- the owner's verbs ----------------------------------------------------------------------

    def connect(
        self,
        deliver: Callable[[list[tuple[EventSink, Event]]], None],
        on_end: Callable[[ServiceUnavailable], None],
    ) -> None:
        """Say where events go. Both are called on the engine thread and must not block; `on_end`
        is the last call of all, and comes earlier, too, from whoever calls `give_up`. Only before
        `start()`."""
        if self._state is not EngineState.NEW:
            raise RuntimeError("an engine can only be connected before it is started")
        self._deliver = deliver
        self._on_end = on_end

    def start(self) -> None:
        """Start the thread and wait until it serves; raises what `make_runner` raised."""
        if self._state is not EngineState.NEW:
            raise RuntimeError(f"an engine can be started once, and this one is {self._state.value}")
        self._state = EngineState.LOADING
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        self._thread.start()
        self._is_ready.wait()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def drain(self, timeout_s: float) -> bool:
        """Wait until nothing runs or can be elected; False after `timeout_s`. Admission is the one
        that refuses newcomers meanwhile."""
        self.wake()
        return not self.is_alive or self._is_idle.wait(timeout_s)

    def begin_stop(self) -> None:
        """Ask the loop to end at the next step boundary, interrupting a long batch; returns at once.
        What has not ended gets ServiceUnavailable. From any thread, any number of times."""
        self._is_stopping = True
        runner = self._runner
        if runner is not None:
            runner.interrupt()
        self._wakeup.set()

    def stop(self, timeout_s: float = 30.0) -> bool:
        """As `begin_stop`, and wait until the model is freed. False where the thread did not end in
        time; it then ends with the process. Before the start it does nothing."""
        self.begin_stop()
        if self._thread.ident is None:
            return True
        # One that was given up will hardly come back while somebody waits.
        if self._state is EngineState.DEAD:
            timeout_s = min(timeout_s, DEAD_PATIENCE_S)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            logger.error("The engine thread did not end within %.0f s", timeout_s)
            return False
        return True

    def give_up(self) -> None:
        """The loop does not come back from where it is: count it as dead and answer everybody, from
        another thread. If it does come back, it ends at once. Does nothing where it does not serve."""
        if self._state is not EngineState.RUNNING:
            return
        self._state = EngineState.DEAD
        self.begin_stop()
        self._on_end(ServiceUnavailable(DEAD_MESSAGE))

    # -- from other threads ---------------------------------------------------------------------

    def wake(self) -> None:
        """Something was submitted: look before the next nap."""
        with self._idle_lock:
            self._is_idle.clear()
            self._wakeup.set()

    def cancel(self, submission: Submission) -> None:
        """Drop the sequence of a submission that was elected, within one step."""
        core = self._core
        if core is not None:
            core.inbox.cancel(submission)
            self.wake()

    def hold(self, submission: Submission, reason: HoldReason) -> None:
        """Let a submission's sequence stand still from the next step on."""
        core = self._core
        if core is not None:
            core.inbox.hold(submission, reason)

    def resume(self, submission: Submission, reason: HoldReason) -> None:
        """Take one reason back; where none is left, the sequence goes on."""
        core = self._core
        if core is not None:
            core.inbox.resume(submission, reason)
            self.wake()

    def inject(self, submission: Submission, token_ids: tuple[int, ...]) -> None:
        """Put tokens into a sequence that stands still for its signals."""
        core = self._core
        if core is not None:
            core.inbox.inject(submission, token_ids)
            self.wake()

    # -- the thread itself ----------------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._runner = self._make_runner()
            self._core = EngineCore(self._runner, self._config, self._admission, self.clock, self._deliver)
            self._core.inbox.on_wake = self.wake
        except BaseException as error:  # whatever it is, `start()` must not wait for ever
            self._error = error
            self._end(EngineState.DEAD, ServiceUnavailable(DEAD_MESSAGE))
            self._is_ready.set()
            return
        self._state = EngineState.RUNNING
        self._is_ready.set()
        try:
            self._loop(self._core)
        except BaseException:
            logger.critical("The engine loop ended by a fault", exc_info=True)
            self._end(EngineState.DEAD, ServiceUnavailable(DEAD_MESSAGE))
        else:
            self._end(EngineState.STOPPED, ServiceUnavailable(STOPPING_MESSAGE))

    def _loop(self, core: EngineCore) -> None:
        while not self._is_stopping:
            self._wakeup.clear()
            self._total_turns += 1
            if core.step():
                continue
            self._note_idleness()
            if not self._wakeup.wait(self._idle_wakeup_s):
                self._check_integrity(core)
            self._is_idle.clear()

    def _note_idleness(self) -> None:
        """Whoever drains waits for this. One who wakes us just now finds the turn that he asked for still
        to come, and not the idleness of the turn before it."""
        with self._idle_lock:
            if not self._wakeup.is_set() and self.statistics.is_idle:
                self._is_idle.set()

    def _check_integrity(self, core: EngineCore) -> None:
        """Nobody wanted anything for a while: time to see whether the books still agree. Once after
        each spell of work. A fault is reported, and the service goes on: it may never matter."""
        statistics = core.statistics(is_alive=True)
        if statistics.total_steps == self._num_checked_steps:
            return
        self._num_checked_steps = statistics.total_steps
        try:
            core.check_integrity()
        except AssertionError as fault:
            self._total_integrity_faults += 1
            logger.error("The engine's books do not agree: %s (%r)", fault, core)

    def _end(self, state: EngineState, error: ServiceUnavailable) -> None:
        """Answer everybody, then free the model. Each part is done even if one before it fails."""
        if self._state is not EngineState.DEAD:
            self._state = state
        core, runner = self._core, self._runner
        try:
            waiting = self._admission.close(error)
            if core is not None:
                core.abandon(error, waiting)
            else:
                now_ts = self.clock.monotonic()
                self._deliver([(submission.sink, Failed(error, now_ts)) for submission in waiting])
        except Exception:
            logger.exception("Not everybody could be told that the engine has ended")
        try:
            if core is not None:
                self._last_statistics = self._snapshot(core, is_alive=False)
            self._core = self._runner = None
            if runner is not None:
                runner.close()
        except Exception:
            logger.exception("The model could not be freed")
        self._is_idle.set()
        self._on_end(error)
        # They hold the model's tables and the client, and the client holds this: without it, each model that
        # was unloaded would stay until the collector comes by.
        self._make_runner, self._deliver, self._on_end = _no_runner, _nobody_reads, _nobody_hears

    def __repr__(self) -> str:
        return f"<EngineThread {self._state.value}, {self._core!r}>"
