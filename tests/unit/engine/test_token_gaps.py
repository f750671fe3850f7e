"""Answers whose next token does not come: the one who reads is told, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from inference.domain.backend import HoldReason
from inference.domain.errors import GenerationTimeout
from inference.domain.events import Event, Failed, Finished, Signals, Started, TokenBatch
from inference.domain.signals import SignalRequest, SignalRule
from inference.engine.client import EngineClient
from inference.engine.config import EngineConfig
from inference.engine.handle import EngineHandle
from inference.engine.plan import StepPlan
from inference.engine.thread import EngineThread
from tests.unit.engine.scripted_engine_parts import (
    FifoAdmission,
    ManualClock,
    ScriptedRunner,
    make_request,
)

PATIENCE_S = 10.0
LIMIT_S = 5.0


class Served:
    """A running engine whose clock a test moves, and whose steps end when a test says so."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.runner = ScriptedRunner(num_lanes=3)
        self.gate = threading.Event()
        self.gate.set()
        self.is_stuck = threading.Event()
        self.runner.before_run = self._before
        self.thread = EngineThread(
            lambda: self.runner, EngineConfig(num_lanes=3, num_cells=4096), FifoAdmission(), self.clock
        )
        self.client = EngineClient(self.thread, self.thread._admission)

    def _before(self, plan: StepPlan) -> None:
        if not self.gate.is_set():
            self.is_stuck.set()
            self.gate.wait(PATIENCE_S)

    async def stuck(self) -> None:
        """Let the engine stand still in its next step."""
        self.is_stuck.clear()
        self.gate.clear()
        assert await asyncio.to_thread(self.is_stuck.wait, PATIENCE_S)

    def submit(self, name: str = "r", limit_s: float | None = LIMIT_S) -> EngineHandle:
        request = replace(make_request(name, max_tokens=1_000_000), max_token_gap_s=limit_s)
        return self.client.submit(request)

    def look(self, after_s: float) -> None:
        self.clock.now_s += after_s
        self.client.token_gaps.look()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.client.start()
    yield made
    made.gate.set()
    assert await made.client.stop(PATIENCE_S)


class Reader:
    """Reads an answer as fast as it comes."""

    def __init__(self, handle: EngineHandle) -> None:
        self.handle = handle
        self.events: list[Event] = []
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.handle:
            self.events.append(event)

    async def until(self, kind: type[Event]) -> Event:
        async with asyncio.timeout(PATIENCE_S):
            while not any(isinstance(event, kind) for event in self.events):
                await asyncio.sleep(0.001)
        return next(event for event in self.events if isinstance(event, kind))

    @property
    def has_failed(self) -> bool:
        return any(isinstance(event, Failed) for event in self.events)


async def settled(*readers: Reader) -> None:
    """What the engine has said is read."""
    async with asyncio.timeout(PATIENCE_S):
        num_read = -1
        while num_read != (num_read := sum(len(reader.events) for reader in readers)):
            await asyncio.sleep(0.05)


async def test_who_waits_longer_than_its_limit_is_ended_while_others_wait_on(served: Served) -> None:
    limited, patient, unlimited = readers = [
        Reader(served.submit()),
        Reader(served.submit("p", 50.0)),
        Reader(served.submit("u", None)),
    ]
    for reader in readers:
        await reader.until(TokenBatch)
    await served.stuck()
    await settled(*readers)
    served.look(LIMIT_S - 0.1)
    await settled(*readers)
    assert not limited.has_failed
    served.look(0.2)
    failed = await limited.until(Failed)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, GenerationTimeout)
    assert "5 s" in failed.error.message
    await asyncio.wait_for(limited.task, PATIENCE_S)
    num_before = len(patient.events)
    served.gate.set()
    async with asyncio.timeout(PATIENCE_S):
        while len(patient.events) == num_before:
            await asyncio.sleep(0.001)
    for reader in (patient, unlimited):
        assert not reader.has_failed
        reader.handle.cancel()
    async with asyncio.timeout(PATIENCE_S):
        while not served.client.statistics.is_idle:
            await asyncio.sleep(0.001)
    assert served.client.token_gaps.total_given_up == 1
    assert "0 watched" in repr(served.client.token_gaps)


async def test_before_the_first_token_there_is_no_limit(served: Served) -> None:
    served.gate.clear()
    reader = Reader(served.submit())
    await reader.until(Started)
    served.look(100 * LIMIT_S)
    served.gate.set()
    await reader.until(TokenBatch)
    assert not reader.has_failed
    reader.handle.cancel()


@pytest.mark.parametrize("reason", list(HoldReason))
async def test_time_in_which_it_is_held_does_not_count(served: Served, reason: HoldReason) -> None:
    reader = Reader(served.submit())
    await reader.until(TokenBatch)
    reader.handle.hold(reason)
    async with asyncio.timeout(PATIENCE_S):
        while not served.client.statistics.num_held:
            await asyncio.sleep(0.001)
    await settled(reader)
    for _ in range(3):
        served.look(LIMIT_S + 1)
    served.is_stuck.clear()
    served.gate.clear()
    reader.handle.resume(reason)
    assert await asyncio.to_thread(served.is_stuck.wait, PATIENCE_S)
    served.look(LIMIT_S - 0.1)
    await settled(reader)
    assert not reader.has_failed, "after that it has all of its time again"
    served.look(0.2)
    await reader.until(Failed)


@pytest.mark.parametrize("is_injected", [False, True])
async def test_a_token_that_waited_for_a_hook_starts_the_time_when_it_is_let_through(
    served: Served, is_injected: bool
) -> None:
    signals = SignalRequest(wants_first_token=False, rules=(SignalRule(every_tokens=2),))
    request = replace(make_request(max_tokens=1_000_000, signals=signals), max_token_gap_s=LIMIT_S)
    reader = Reader(served.client.submit(request))
    await reader.until(Signals)
    await settled(reader)
    served.look(3 * LIMIT_S)
    if is_injected:
        reader.handle.inject((500,))
    reader.handle.resume(HoldReason.HOOK)
    async with asyncio.timeout(PATIENCE_S):
        while [type(event) for event in reader.events].count(TokenBatch) < 2:
            await asyncio.sleep(0.001)
    served.look(LIMIT_S - 0.1)
    await settled(reader)
    assert not reader.has_failed
    reader.handle.cancel()


async def test_what_its_reader_has_not_read_has_come(served: Served) -> None:
    handle = served.submit()
    async with asyncio.timeout(PATIENCE_S):
        while not served.client.statistics.num_held:
            await asyncio.sleep(0.001)
    for _ in range(3):
        served.look(LIMIT_S + 1)
    assert "open" in repr(handle)
    handle.cancel()


async def test_an_answer_that_has_ended_is_left_alone(served: Served) -> None:
    handle = served.client.submit(replace(make_request(max_tokens=3), max_token_gap_s=LIMIT_S))
    events = [event async for event in handle]
    assert isinstance(events[-1], Finished)
    served.look(LIMIT_S + 1)
    assert [event async for event in handle] == []


async def test_nobody_needs_to_ask_for_it_to_be_noticed(served: Served) -> None:
    reader = Reader(served.submit())
    await reader.until(TokenBatch)
    await served.stuck()
    await settled(reader)
    served.clock.now_s += LIMIT_S + 1
    await reader.until(Failed)
