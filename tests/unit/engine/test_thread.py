from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inference.domain.admission import EventSink, Submission
from inference.domain.backend import HoldReason
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Event, Failed
from inference.engine.config import EngineConfig
from inference.engine.plan import StepPlan
from inference.engine.thread import EngineState, EngineThread
from inference.engine.watchdog import Watchdog
from tests.unit.engine.scripted_engine_parts import (
    FifoAdmission,
    RecordingSink,
    ScriptedRunner,
    make_request,
)

PATIENCE_S = 10.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.001)


class Started:
    """An engine thread with stand-ins, stopped at the end of the test."""

    def __init__(self, *, idle_wakeup_s: float = 1.0, config: EngineConfig | None = None) -> None:
        self.config = config or EngineConfig(num_lanes=2, num_cells=4096)
        self.admission = FifoAdmission()
        self.runner = ScriptedRunner(num_lanes=2, num_sequences=self.config.num_sequences)
        self.endings: list[ServiceUnavailable] = []
        self.made_on: list[threading.Thread] = []
        self.thread = EngineThread(
            self._make, self.config, self.admission, SystemClock(), idle_wakeup_s=idle_wakeup_s
        )
        self.thread.connect(self._deliver, self.endings.append)

    def _make(self) -> ScriptedRunner:
        self.made_on.append(threading.current_thread())
        return self.runner

    def _deliver(self, events: list[tuple[EventSink, Event]]) -> None:
        for sink, event in events:
            assert isinstance(sink, RecordingSink)
            sink.events.append(event)

    def submit(self, name: str = "r", *, max_tokens: int = 4) -> tuple[RecordingSink, Submission]:
        sink = RecordingSink()
        submission = Submission(make_request(name, max_tokens=max_tokens), sink, 0.0)
        self.admission.submit(submission)
        self.thread.wake()
        return sink, submission


@pytest.fixture
def engine() -> Iterator[Started]:
    started = Started()
    yield started
    started.thread.stop(PATIENCE_S)


@pytest.fixture
def restless() -> Iterator[Started]:
    """It looks up every few milliseconds when idle."""
    started = Started(idle_wakeup_s=0.01)
    yield started
    started.thread.stop(PATIENCE_S)


def test_it_serves_from_start_to_stop(engine: Started) -> None:
    assert engine.thread.state is EngineState.NEW
    engine.thread.start()
    assert engine.thread.is_alive
    assert engine.made_on != [threading.current_thread()]
    sink, _ = engine.submit(max_tokens=3)
    until(lambda: sink.endings)
    assert sink.token_ids == [100, 101, 102]
    assert engine.thread.stop(PATIENCE_S)
    assert engine.thread.state is EngineState.STOPPED
    assert engine.runner.is_closed
    assert len(engine.endings) == 1


def test_it_sleeps_when_idle_and_wakes_for_a_submission(engine: Started) -> None:
    engine.thread.start()
    assert engine.thread.drain(PATIENCE_S)
    steps = engine.thread.statistics.total_steps
    time.sleep(0.05)
    assert engine.thread.statistics.total_steps == steps
    begin_ts = time.monotonic()
    sink, _ = engine.submit()
    until(lambda: sink.endings)
    # Far less than the nap it would otherwise take.
    assert time.monotonic() - begin_ts < 0.5


def test_cancel_reaches_a_running_sequence(engine: Started) -> None:
    engine.thread.start()
    sink, submission = engine.submit(max_tokens=1_000_000)
    until(lambda: sink.token_ids)
    engine.thread.cancel(submission)
    until(lambda: engine.thread.statistics.is_idle)
    assert engine.admission.num_held == 0
    assert not sink.endings


def test_drain_waits_for_what_runs(engine: Started) -> None:
    gate = threading.Event()
    engine.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    engine.thread.start()
    sink, _ = engine.submit()
    assert not engine.thread.drain(0.02)
    gate.set()
    assert engine.thread.drain(PATIENCE_S)
    assert sink.endings


def test_whenever_it_is_woken_it_is_not_drained_before_it_has_looked() -> None:
    """The wake falls into each part of the loop's turn, as an engine that looks up all the time has it."""
    for _ in range(100):
        engine, gate = Started(idle_wakeup_s=0.0002), threading.Event()
        engine.runner.before_run = lambda plan, gate=gate: gate.wait(PATIENCE_S) and None
        engine.thread.start()
        engine.submit()
        is_drained = engine.thread.drain(0.002)
        gate.set()
        assert engine.thread.stop(PATIENCE_S)
        assert not is_drained


def test_with_nothing_but_held_ones_it_sleeps_but_is_not_drained(engine: Started) -> None:
    engine.thread.start()
    sink, submission = engine.submit(max_tokens=500)
    until(lambda: sink.token_ids)
    engine.thread.hold(submission, HoldReason.READER)
    until(lambda: engine.thread.statistics.num_held)
    num_steps, cpu_s = engine.thread.statistics.total_steps, time.process_time()
    assert not engine.thread.drain(0.2)
    assert engine.thread.statistics.total_steps == num_steps
    assert time.process_time() - cpu_s < 0.1
    engine.thread.resume(submission, HoldReason.READER)
    assert engine.thread.drain(PATIENCE_S)
    assert len(sink.token_ids) == 500


def test_a_held_one_is_answered_when_the_engine_stops(engine: Started) -> None:
    engine.thread.start()
    sink, submission = engine.submit(max_tokens=1_000_000)
    engine.thread.hold(submission, HoldReason.HOOK)
    until(lambda: engine.thread.statistics.num_held)
    assert engine.thread.stop(PATIENCE_S)
    (ending,) = sink.endings
    assert isinstance(ending, Failed)
    engine.thread.resume(submission, HoldReason.HOOK)
    assert engine.admission.num_held == 0


def test_stop_answers_what_runs_and_what_waits(engine: Started) -> None:
    engine.thread.start()
    sinks = [engine.submit(f"r{index}", max_tokens=1_000_000)[0] for index in range(4)]
    until(lambda: sinks[0].token_ids and sinks[1].token_ids)
    assert engine.thread.stop(PATIENCE_S)
    for sink in sinks:
        (ending,) = sink.endings
        assert isinstance(ending, Failed)
        assert isinstance(ending.error, ServiceUnavailable)
    assert engine.admission.num_held == 0
    assert isinstance(engine.admission.closed_with, ServiceUnavailable)
    assert engine.thread.statistics.lanes.num_used == 0


def test_stop_interrupts_a_long_batch(engine: Started) -> None:
    def until_interrupted(_plan: StepPlan) -> None:
        assert engine.runner.is_interrupted.wait(PATIENCE_S)

    engine.runner.before_run = until_interrupted
    engine.thread.start()
    engine.submit()
    until(lambda: engine.runner.plans)
    assert engine.thread.stop(PATIENCE_S)


def test_begin_stop_returns_at_once(engine: Started) -> None:
    engine.thread.start()
    engine.thread.begin_stop()
    until(lambda: engine.thread.state is EngineState.STOPPED)
    assert engine.thread.stop(PATIENCE_S)


def test_stopping_twice_and_before_the_start_is_harmless(engine: Started) -> None:
    other = Started()
    assert other.thread.stop(0.1)
    engine.thread.start()
    assert engine.thread.stop(PATIENCE_S)
    assert engine.thread.stop(PATIENCE_S)
    assert len(engine.endings) == 1


def test_a_fault_of_the_loop_is_told_to_everybody(engine: Started, caplog: pytest.LogCaptureFixture) -> None:
    engine.thread.start()
    running, _ = engine.submit("running", max_tokens=1_000_000)
    until(lambda: running.token_ids)
    engine.admission.elect_error = RuntimeError("a fault in admission")
    waiting, _ = engine.submit("waiting")
    until(lambda: engine.thread.state is EngineState.DEAD)
    until(lambda: engine.endings)
    for sink in (running, waiting):
        (ending,) = sink.endings
        assert isinstance(ending, Failed)
        assert isinstance(ending.error, ServiceUnavailable)
        assert "fault in admission" not in ending.error.message
    assert not engine.thread.is_alive
    assert engine.runner.is_closed
    assert engine.admission.num_held == 0
    assert "The engine loop ended by a fault" in caplog.text
    with pytest.raises(ServiceUnavailable):
        engine.submit("late")


def test_a_model_that_cannot_be_made_is_an_error_of_start() -> None:
    admission = FifoAdmission()

    def make() -> ScriptedRunner:
        raise MemoryError("no room for the cells")

    thread = EngineThread(make, EngineConfig(), admission, SystemClock())
    with pytest.raises(MemoryError, match="no room"):
        thread.start()
    assert thread.state is EngineState.DEAD
    assert isinstance(admission.closed_with, ServiceUnavailable)
    assert thread.stop(PATIENCE_S)


def test_it_is_started_once_and_connected_before(engine: Started) -> None:
    engine.thread.start()
    with pytest.raises(RuntimeError):
        engine.thread.start()
    with pytest.raises(RuntimeError):
        engine.thread.connect(lambda events: None, lambda error: None)


def test_statistics_are_there_before_and_after(engine: Started) -> None:
    assert engine.thread.statistics.lanes.num_lanes == 2
    engine.thread.start()
    sink, _ = engine.submit(max_tokens=5)
    until(lambda: sink.endings)
    engine.thread.stop(PATIENCE_S)
    statistics = engine.thread.statistics
    assert not statistics.is_alive
    assert statistics.total_generated_tokens == 5


def test_one_that_hangs_can_be_given_up_from_outside(engine: Started) -> None:
    """A batch that does not return: everybody is told, and nobody waits for the thread."""
    gate = threading.Event()
    engine.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    engine.thread.start()
    engine.submit()
    until(lambda: engine.thread.statistics.num_runnable and engine.runner.plans)
    dog = Watchdog(20.0)
    stalls = [dog.observe(engine.thread.statistics, float(second)) for second in range(22)]
    assert stalls[19] is None
    assert stalls[20] is not None
    assert engine.thread.is_alive

    engine.thread.give_up()
    assert engine.thread.state is EngineState.DEAD
    assert not engine.thread.is_alive
    assert not engine.thread.statistics.is_alive
    assert len(engine.endings) == 1
    assert dog.observe(engine.thread.statistics, 100.0) is None
    with pytest.raises(RuntimeError):
        engine.thread.start()

    # It comes back after all: it ends, and stays dead.
    gate.set()
    assert engine.thread.stop(PATIENCE_S)
    assert engine.thread.state is EngineState.DEAD
    assert engine.runner.is_closed
    assert engine.admission.num_held == 0


def test_giving_up_what_does_not_serve_does_nothing(engine: Started) -> None:
    engine.thread.give_up()
    assert engine.thread.state is EngineState.NEW
    engine.thread.start()
    engine.thread.stop(PATIENCE_S)
    engine.thread.give_up()
    assert engine.thread.state is EngineState.STOPPED
    assert len(engine.endings) == 1


def test_books_that_do_not_agree_are_reported_when_it_rests(
    restless: Started, caplog: pytest.LogCaptureFixture
) -> None:
    restless.thread.start()
    sink, _ = restless.submit()
    until(lambda: sink.endings)
    time.sleep(0.1)
    assert restless.thread.statistics.total_integrity_faults == 0

    assert restless.thread._core is not None
    restless.thread._core._lanes._is_used[1] = True
    other, _ = restless.submit("another")
    until(lambda: other.endings)
    until(lambda: restless.thread.statistics.total_integrity_faults)
    turns = restless.thread.statistics.total_turns
    until(lambda: restless.thread.statistics.total_turns > turns + 5)
    # Once for a spell of work, and the engine serves on.
    assert restless.thread.statistics.total_integrity_faults == 1
    assert "books do not agree" in caplog.text
    last, _ = restless.submit("last")
    until(lambda: last.endings)
    assert last.token_ids == [100, 101, 102, 103]


def test_an_idle_engine_turns_but_does_not_step(restless: Started) -> None:
    restless.thread.start()
    until(lambda: restless.thread.statistics.total_turns > 5)
    assert restless.thread.statistics.total_steps == 0


def test_what_a_disk_has_read_wakes_an_engine_that_sleeps(tmp_path: Path) -> None:
    config = EngineConfig(
        num_lanes=2,
        num_cells=256,
        max_cached_entries=1,
        min_cached_tokens=8,
        host_cache_bytes=4000,
        disk_cache_dir=str(tmp_path / "cache"),
        disk_cache_bytes=1 << 24,
    )
    started = Started(idle_wakeup_s=60.0, config=config)
    started.thread.start()
    try:
        for namespace in ("a", "b", "c", "d"):
            _ask(started, namespace)
        # Each prompt has 15 pieces, of which host memory holds two dozen.
        until(lambda: started.thread.statistics.cold.disk.num_files >= 30)
        _ask(started, "a")
        assert started.thread.statistics.cold.disk.total_reads > 0
    finally:
        assert started.thread.stop()


def _ask(started: Started, namespace: str) -> None:
    sink = RecordingSink()
    request = make_request(f"r{len(started.admission.grants)}", prompt=60, namespace=namespace)
    started.admission.submit(Submission(request, sink, 0.0))
    started.thread.wake()
    until(lambda: sink.endings)


@pytest.mark.parametrize("can_share_prefixes", [True, False])
def test_what_an_engine_held_goes_when_it_ends_and_not_when_the_collector_comes(
    can_share_prefixes: bool,
) -> None:
    config = EngineConfig(num_lanes=2, num_cells=4096, host_cache_bytes=1_000_000)
    runner = ScriptedRunner(
        num_lanes=2, num_sequences=config.num_sequences, can_share_prefixes=can_share_prefixes
    )
    is_there = weakref.ref(runner)
    makers = [runner]
    thread = EngineThread(makers.pop, config, FifoAdmission(), SystemClock())
    # As its client does, which knows it.
    thread.connect(lambda events, thread=thread: None, lambda error, thread=thread: None)  # type: ignore[misc]
    gc.disable()
    try:
        thread.start()
        del runner
        assert is_there() is not None
        assert thread.stop(PATIENCE_S)
        assert is_there() is None
        is_known = weakref.ref(thread)
        del thread
        assert is_known() is None
    finally:
        gc.enable()


def test_what_kept_an_engine_from_starting_is_told_and_held_by_nobody() -> None:
    class Obstacle(Exception):
        pass

    def make() -> ScriptedRunner:
        raise Obstacle

    thread = EngineThread(make, EngineConfig(), FifoAdmission(), SystemClock())
    gc.disable()
    try:
        with pytest.raises(Obstacle) as raised:
            thread.start()
        is_there = weakref.ref(raised.value)
        del raised
        assert is_there() is None
    finally:
        gc.enable()
