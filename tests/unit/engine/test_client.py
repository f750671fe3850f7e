from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from inference.domain.backend import HoldReason, Newcomer
from inference.domain.cache_affinity import CacheAffinity
from inference.domain.clock import SystemClock
from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Event, Failed, Finished, Injected, Signals, Started, TokenBatch
from inference.domain.priority import PriorityClass
from inference.domain.signals import SignalRequest, SignalRule
from inference.domain.timings import Timings
from inference.engine.client import EngineClient
from inference.engine.config import EngineConfig
from inference.engine.handle import MAX_UNREAD_EVENTS
from inference.engine.plan import StepOutcome
from inference.engine.thread import EngineThread
from tests.unit.engine.scripted_engine_parts import FifoAdmission, ScriptedRunner, make_request

PATIENCE_S = 10.0
OFTEN = SignalRule(every_tokens=5)


class Served:
    """A client of a running engine, on the test's event loop."""

    def __init__(self) -> None:
        self.admission = FifoAdmission()
        self.runner = ScriptedRunner(num_lanes=2)
        config = EngineConfig(num_lanes=2, num_cells=4096)
        self.thread = EngineThread(lambda: self.runner, config, self.admission, SystemClock())
        self.client = EngineClient(self.thread, self.admission)

    async def until_idle(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not (self.client.statistics.is_idle and not self.admission.waiting):
                await asyncio.sleep(0.001)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    one = Served()
    await one.client.start()
    yield one
    assert await one.client.stop(PATIENCE_S)


def tokens_of(events: list[Event]) -> list[int]:
    return [one for event in events if isinstance(event, TokenBatch) for one in event.token_ids]


async def test_a_request_from_submit_to_its_ending(served: Served) -> None:
    events = [event async for event in served.client.submit(make_request(max_tokens=3))]
    assert [type(event) for event in events] == [Started, TokenBatch, TokenBatch, TokenBatch, Finished]
    assert tokens_of(events) == [100, 101, 102]


async def test_many_at_once_get_their_own_tokens(served: Served) -> None:
    served.runner.draw = lambda request, index: 100 + int(request.request_id) * 10 + index
    handles = [served.client.submit(make_request(str(number), max_tokens=5)) for number in range(30)]
    answers = await asyncio.gather(*(_read(handle) for handle in handles))
    for number, events in enumerate(answers):
        assert tokens_of(events) == [100 + number * 10 + index for index in range(5)]
        assert isinstance(events[-1], Finished)
    await served.until_idle()


async def _read(handle: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in handle]


async def test_cancel_while_it_waits_leaves_the_queue(served: Served) -> None:
    gate = threading.Event()
    served.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    running = [served.client.submit(make_request(f"r{index}")) for index in range(2)]
    waiting = served.client.submit(make_request("waiting"))
    async with asyncio.timeout(PATIENCE_S):
        while len(served.admission.waiting) != 1:
            await asyncio.sleep(0.001)
    waiting.cancel()
    assert not served.admission.waiting
    gate.set()
    assert [event async for event in waiting] == []
    for handle in running:
        assert isinstance((await _read(handle))[-1], Finished)


async def test_cancel_while_it_runs_frees_the_lane(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=1_000_000))
    async for event in handle:
        if isinstance(event, TokenBatch):
            break
    handle.cancel()
    handle.cancel()
    await served.until_idle()
    assert served.admission.num_held == 0
    assert [event async for event in handle] == []


async def test_cancel_wakes_the_one_who_reads(served: Served) -> None:
    gate = threading.Event()
    served.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    handle = served.client.submit(make_request())
    reader = asyncio.create_task(_read(handle))
    await asyncio.sleep(0.01)
    handle.cancel()
    events = await asyncio.wait_for(reader, PATIENCE_S)
    assert all(isinstance(event, Started) for event in events)
    gate.set()


async def test_cancel_after_the_ending_does_nothing(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=2))
    await served.until_idle()
    await asyncio.sleep(0.01)
    handle.cancel()
    assert isinstance((await _read(handle))[-1], Finished)
    assert served.client.statistics.total_cancelled_sequences == 0


async def test_a_reader_that_is_cancelled_can_be_followed_by_cancel(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=1_000_000))
    reader = asyncio.create_task(_read(handle))
    await asyncio.sleep(0.01)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    handle.cancel()
    await served.until_idle()


async def test_a_held_one_says_nothing_more_until_it_is_resumed(served: Served) -> None:
    handle = served.client.submit(make_request("held", max_tokens=300))
    other = served.client.submit(make_request("other", max_tokens=600))
    events = [await anext(handle), await anext(handle)]
    for reason in HoldReason:
        handle.hold(reason)
    assert isinstance((await _read(other))[-1], Finished)
    async with asyncio.timeout(PATIENCE_S):
        while not served.client.statistics.num_held:
            await asyncio.sleep(0.001)
    for reason in HoldReason:
        num_steps = served.client.statistics.total_steps
        await asyncio.sleep(0.02)
        assert served.client.statistics.total_steps == num_steps
        handle.resume(reason)
    begin_ts = time.monotonic()
    events += await asyncio.wait_for(_read(handle), PATIENCE_S)
    assert tokens_of(events) == [100 + index for index in range(300)]
    # Far less than the nap of an engine that nobody woke.
    assert time.monotonic() - begin_ts < 0.9


async def test_held_before_it_starts_it_says_that_it_has_started(served: Served) -> None:
    handle = served.client.submit(make_request())
    handle.hold(HoldReason.HOOK)
    first = await asyncio.wait_for(anext(handle), PATIENCE_S)
    assert isinstance(first, Started)
    handle.resume(HoldReason.HOOK)
    assert tokens_of(await asyncio.wait_for(_read(handle), PATIENCE_S)) == [100, 101, 102, 103]


async def test_a_held_one_can_be_cancelled(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=1_000_000))
    await anext(handle)
    handle.hold(HoldReason.READER)
    handle.cancel()
    handle.resume(HoldReason.READER)
    handle.hold(HoldReason.READER)
    await served.until_idle()
    assert served.admission.num_held == 0
    assert [event async for event in handle] == []


async def test_after_the_ending_a_hold_means_nothing(served: Served) -> None:
    handle = served.client.submit(make_request())
    await _read(handle)
    handle.hold(HoldReason.READER)
    handle.resume(HoldReason.READER)
    assert handle.submission.holds == set()
    assert isinstance((await _read(served.client.submit(make_request("next"))))[-1], Finished)


async def test_a_hook_puts_text_in_and_reads_on(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=38, signals=SignalRequest(rules=(OFTEN,))))
    kinds, num_answers = [], 0
    async with asyncio.timeout(PATIENCE_S):
        async for event in handle:
            kinds.append(type(event))
            if isinstance(event, Signals) and event.is_held:
                num_answers += 1
                if num_answers % 2:
                    handle.inject((500, 501))
                handle.resume(HoldReason.HOOK)
    assert kinds[:5] == [Started, Signals, Injected, TokenBatch, TokenBatch]
    assert [kinds[at + 1] for at, kind in enumerate(kinds) if kind is Signals] == [
        TokenBatch if number % 2 else Injected for number in range(kinds.count(Signals))
    ]
    assert kinds.count(TokenBatch) == 38
    assert served.runner.drawn["r"].count(500) == kinds.count(Injected)
    await served.until_idle()


async def test_an_answer_comes_without_a_nap_of_the_engine(served: Served) -> None:
    handle = served.client.submit(make_request(signals=SignalRequest()))
    await anext(handle)
    await anext(handle)
    begin_ts = time.monotonic()
    handle.inject((500,))
    assert isinstance(await asyncio.wait_for(anext(handle), PATIENCE_S), Injected)
    assert time.monotonic() - begin_ts < 0.9
    handle.cancel()


@pytest.mark.parametrize("is_taken_at_once", [False, True])
async def test_what_is_taken_at_once_has_no_token_that_was_thrown_away(
    served: Served, is_taken_at_once: bool
) -> None:
    taken: list[TokenBatch] = []
    handle = served.client.submit(make_request(max_tokens=20, signals=SignalRequest(rules=())))
    if is_taken_at_once:
        handle.take_at_once(lambda batch: bool(taken.append(batch)) or True)
    assert isinstance(await anext(handle), Started)
    assert isinstance(await anext(handle), Signals)
    waiting = asyncio.create_task(_read(handle))
    await asyncio.sleep(0.02)
    assert not taken
    handle.inject((500,))
    handle.resume(HoldReason.HOOK)
    rest = await asyncio.wait_for(waiting, PATIENCE_S)
    assert isinstance(rest[0], Injected)
    assert tokens_of([*rest, *taken]) == [100 + index for index in range(20)]


async def test_after_cancel_and_after_the_ending_nothing_is_put_in(served: Served) -> None:
    handle = served.client.submit(make_request("ended"))
    await _read(handle)
    handle.inject((500,))
    assert await _read(handle) == []
    left = served.client.submit(make_request("left", signals=SignalRequest()))
    await anext(left)
    await anext(left)
    left.inject((500,))
    left.cancel()
    left.inject((500,))
    left.resume(HoldReason.HOOK)
    assert await _read(left) == []
    await served.until_idle()
    assert served.admission.num_held == 0


async def test_a_hook_that_never_answers_holds_up_nobody_else(served: Served) -> None:
    handle = served.client.submit(make_request("asks", signals=SignalRequest()))
    await anext(handle)
    assert isinstance(await anext(handle), Signals)
    for number in range(5):
        assert isinstance((await _read(served.client.submit(make_request(f"r{number}"))))[-1], Finished)
    handle.cancel()
    await served.until_idle()


async def test_refuse_answers_who_waits_and_spares_who_runs(served: Served) -> None:
    gate = threading.Event()
    served.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    handles = [served.client.submit(make_request(f"r{index}")) for index in range(3)]
    async with asyncio.timeout(PATIENCE_S):
        while len(served.admission.waiting) != 1:
            await asyncio.sleep(0.001)
    error = ServiceUnavailable("draining")
    served.client.refuse(error)
    (event,) = await _read(handles[2])
    assert isinstance(event, Failed)
    assert event.error is error
    with pytest.raises(ServiceUnavailable, match="draining"):
        served.client.submit(make_request("late"))
    gate.set()
    for handle in handles[:2]:
        assert isinstance((await _read(handle))[-1], Finished)


async def test_stop_gives_everybody_an_ending(served: Served) -> None:
    handles = [served.client.submit(make_request(f"r{index}", max_tokens=1_000_000)) for index in range(4)]
    readers = [asyncio.create_task(_read(handle)) for handle in handles]
    await asyncio.sleep(0.02)
    assert await served.client.stop(PATIENCE_S)
    for events in await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S):
        assert isinstance(events[-1], Failed)
        assert sum(isinstance(event, Failed | Finished) for event in events) == 1
    with pytest.raises(ServiceUnavailable):
        served.client.submit(make_request("late"))


async def test_one_that_admission_lost_is_answered_when_the_engine_dies(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=1_000_000))
    async for event in handle:
        if isinstance(event, TokenBatch):
            break

    def elect(affinity: CacheAffinity) -> None:
        served.admission.waiting.popleft()
        raise RuntimeError("elected and lost")

    served.admission.elect = elect  # type: ignore[assignment,method-assign]
    lost = served.client.submit(make_request("lost"))
    (event,) = await asyncio.wait_for(_read(lost), PATIENCE_S)
    assert isinstance(event, Failed)
    assert isinstance((await _read(handle))[-1], Failed)
    assert not served.client.is_alive


async def test_before_the_start_it_says_that_the_model_loads() -> None:
    one = Served()
    with pytest.raises(ServiceUnavailable, match="loading"):
        one.client.submit(make_request())
    await one.client.start()
    assert await one.client.stop(PATIENCE_S)
    with pytest.raises(ServiceUnavailable, match="not running"):
        one.client.submit(make_request())


async def test_drain_waits_for_the_last_answer(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=200))
    reading = asyncio.ensure_future(_read(handle))
    assert await served.client.drain(PATIENCE_S)
    assert isinstance((await reading)[-1], Finished)


async def test_a_step_wakes_the_loop_once_however_many_sequences_it_has(served: Served) -> None:
    loop = asyncio.get_running_loop()
    counted: list[object] = []
    original = loop.call_soon_threadsafe

    def count(*args: object, **kwargs: object) -> object:
        counted.append(args[0])
        return original(*args, **kwargs)  # type: ignore[arg-type]

    loop.call_soon_threadsafe = count  # type: ignore[method-assign,assignment]
    handles = [served.client.submit(make_request(f"r{index}", max_tokens=50)) for index in range(2)]
    await asyncio.gather(*(_read(handle) for handle in handles))
    num_steps = served.client.statistics.total_steps
    # One for each step, and one more for each time somebody was let in.
    assert len(counted) <= num_steps + 2
    assert served.client.statistics.total_generated_tokens == 100


def test_an_event_loop_that_ends_before_the_engine_is_survived(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.new_event_loop()
    thread = EngineThread(ScriptedRunner, EngineConfig(num_lanes=2), FifoAdmission(), SystemClock())
    EngineClient(thread, FifoAdmission(), loop)
    thread.start()
    loop.close()
    assert thread.stop(PATIENCE_S)
    assert "after the end of the event loop" in caplog.text


async def test_admission_hears_when_a_request_starts_fails_or_is_complete(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=2))
    await _read(handle)
    timings = Timings(num_prompt_tokens=3, num_predicted_tokens=2)
    handle.note_completed(timings)
    served.runner.outcomes.extend([StepOutcome.FAILED, StepOutcome.FAILED])  # together, and alone
    await _read(served.client.submit(make_request("fails")))

    assert [ticket.notes for ticket in served.admission.tickets] == [
        ["started", timings],
        ["started", "failed"],
    ]


async def test_the_deadline_goes_to_admission_with_the_request(served: Served) -> None:
    handle = served.client.submit(make_request(), deadline_ts=123.0)
    assert handle.submission.deadline_ts == 123.0
    await _read(handle)


NEWCOMER = Newcomer("r", user_id=1, priority=PriorityClass.NORMAL, num_prompt_bytes=10)


async def test_refusals_before_and_after_the_queue_are_those_of_admission(served: Served) -> None:
    served.client.refuse_early(NEWCOMER)
    overdue = served.client.reject_overdue(request_id="r", user_id=1, allowed_s=60)
    assert "r: no lane within 60" in overdue.message
    served.client.refuse(ServiceUnavailable("draining"))
    with pytest.raises(ServiceUnavailable, match="draining"):
        served.client.refuse_early(NEWCOMER)


async def test_a_reader_that_does_not_read_holds_its_sequence_and_no_other(served: Served) -> None:
    served.runner.before_run = lambda plan: time.sleep(0.001)
    unread = served.client.submit(make_request("unread", max_tokens=500))
    async with asyncio.timeout(PATIENCE_S):
        while not served.client.statistics.num_held:
            await asyncio.sleep(0.001)
    other = served.client.submit(make_request("other", max_tokens=200))
    assert len(tokens_of(await asyncio.wait_for(_read(other), PATIENCE_S))) == 200
    # What the step under way still draws comes on top, and that a hand-over may lag some steps behind.
    assert MAX_UNREAD_EVENTS <= len(unread._events) < 4 * MAX_UNREAD_EVENTS
    num_unread = len(unread._events)
    await asyncio.sleep(0.02)
    assert len(unread._events) == num_unread

    assert tokens_of(await asyncio.wait_for(_read(unread), PATIENCE_S)) == list(range(100, 600))
    await served.until_idle()
    assert served.client.statistics.num_held == 0
    # Admission learns what the answer took, not how long its reader slept.
    unread.note_completed(Timings(num_prompt_tokens=3, num_predicted_tokens=500, predicted_s=10.0))
    (told,) = [note for note in served.admission.tickets[0].notes if isinstance(note, Timings)]
    assert 5.0 < told.predicted_s < 9.98


async def test_a_reader_that_keeps_up_is_never_held(served: Served) -> None:
    served.runner.before_run = lambda plan: time.sleep(0.002)
    handle = served.client.submit(make_request(max_tokens=300))
    async for _ in handle:
        assert not handle._is_full


@pytest.mark.parametrize("unread", [False, True])
async def test_it_says_once_when_the_engine_has_let_go(served: Served, unread: bool) -> None:
    calls: list[str] = []
    ended = served.client.submit(make_request("ended", max_tokens=3))
    ended.when_released(lambda: calls.append("ended"))
    await _read(ended)
    assert calls == ["ended"]
    ended.cancel()
    late = served.client.submit(make_request("late", max_tokens=3))
    await _read(late)
    late.when_released(lambda: calls.append("late"))
    assert calls == ["ended", "late"]

    running = served.client.submit(make_request("running", max_tokens=1_000_000))
    running.when_released(lambda: calls.append("running"))
    await anext(running)
    if unread:
        async with asyncio.timeout(PATIENCE_S):
            while not served.client.statistics.num_held:
                await asyncio.sleep(0.001)
    running.cancel()
    assert calls == ["ended", "late"]  # its lane is still the engine's
    async with asyncio.timeout(PATIENCE_S):
        while len(calls) < 3:
            await asyncio.sleep(0.001)
    assert served.client.statistics.lanes.num_used == 0
    assert calls == ["ended", "late", "running"]
    assert not served.client._open


async def test_who_leaves_the_queue_or_an_engine_that_ends_has_been_let_go(served: Served) -> None:
    calls: list[str] = []
    gate = threading.Event()
    served.runner.before_run = lambda plan: gate.wait(PATIENCE_S) and None
    handles = [served.client.submit(make_request(f"r{index}", max_tokens=1_000_000)) for index in range(3)]
    for index, handle in enumerate(handles):
        handle.when_released(lambda index=index: calls.append(f"r{index}"))
    async with asyncio.timeout(PATIENCE_S):
        while len(served.admission.waiting) != 1:
            await asyncio.sleep(0.001)
    handles[2].cancel()
    assert calls == ["r2"]
    handles[0].cancel()
    gate.set()
    assert await served.client.stop(PATIENCE_S)
    await asyncio.sleep(0.01)
    assert sorted(calls) == ["r0", "r1", "r2"]


async def test_tokens_are_taken_at_once_while_their_owner_waits(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=200))
    taken: list[int] = []

    def take(batch: TokenBatch) -> bool:
        # Every third is left to the owner.
        if len(taken) % 3 == 2 and batch.token_ids[0] != taken[-1]:
            taken.append(batch.token_ids[0])
            return False
        taken.extend(batch.token_ids)
        return True

    handle.take_at_once(take)
    events = await asyncio.wait_for(_read(handle), PATIENCE_S)
    assert isinstance(events[-1], Finished)
    left = tokens_of(events)
    # What was offered and what was not: together everything, each in its order.
    assert left == sorted(left)
    assert taken == sorted(taken)
    assert sorted({*taken, *left}) == list(range(100, 300))


async def test_nothing_is_taken_before_what_lies_unread(served: Served) -> None:
    handle = served.client.submit(make_request(max_tokens=10))
    order: list[int] = []

    def take(batch: TokenBatch) -> bool:
        order.extend(batch.token_ids)
        return True

    await asyncio.sleep(0.05)
    handle.take_at_once(take)
    async with asyncio.timeout(PATIENCE_S):
        async for event in handle:
            if isinstance(event, TokenBatch):
                order.extend(event.token_ids)
                await asyncio.sleep(0)
    assert order == list(range(100, 110))


async def test_what_taking_raises_comes_out_of_the_wait(served: Served) -> None:
    # Slow steps: its owner waits for the next token, and is not still busy with the last ones.
    served.runner.before_run = lambda plan: time.sleep(0.005)
    handle = served.client.submit(make_request(max_tokens=50))

    def take(batch: TokenBatch) -> bool:
        raise ValueError("the text could not be written")

    handle.take_at_once(take)
    with pytest.raises(ValueError, match="could not be written"):
        await asyncio.wait_for(_read(handle), PATIENCE_S)
    handle.cancel()
    await served.until_idle()
