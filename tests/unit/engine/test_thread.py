from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inference.domain.admission import EventSink, Submission
from inference.domain.backend import HoldReason
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Event, Failed
from inference.engine.config import EngineConfig
from inference.engine.plan import StepPlan
from inference.engine.thread import EngineState, EngineThread
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

    def __init__(self) -> None:
        self.config = EngineConfig(num_lanes=2, num_cells=4096)
        self.admission = FifoAdmission()
        self.runner = ScriptedRunner(num_lanes=2)
        self.endings: list[ServiceUnavailable] = []
        self.made_on: list[threading.Thread] = []
        self.thread = EngineThread(self._make, self.config, self.admission, SystemClock())
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
