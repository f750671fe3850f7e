"""A request ends once, whoever says so, wherever."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from hooks.contracts.actions import CallWebhook, Deny, InjectText, Tag
from hooks.contracts.decisions import DecisionResult, HookDenied
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.webhooks import WebhookAnswer
from hooks.guard import CANCELLED, TerminalGuard, TerminalTasks
from tests.hook_parts import CALLER, Observed, ScriptedWebhooks, chat, desk_of, exchange_of, policy

TERMINAL = HookPoint.TERMINAL
SUCCESS = TerminalOutcome("success", 200, texts=("42",))
ERROR = TerminalOutcome("error", 502, message="broken")


async def settled() -> None:
    """Lets everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


class Heard:
    def __init__(self, *, waits_for: asyncio.Event | None = None, raises: Exception | None = None) -> None:
        self.outcomes: list[TerminalOutcome] = []
        self._waits_for = waits_for
        self._raises = raises

    async def fire(self, outcome: TerminalOutcome) -> None:
        self.outcomes.append(outcome)
        if self._waits_for is not None:
            await self._waits_for.wait()
        if self._raises is not None:
            raise self._raises


async def test_only_the_first_ending_counts():
    heard, tasks = Heard(), TerminalTasks()
    guard = TerminalGuard(heard.fire, tasks)

    assert guard.outcome is None
    assert guard.conclude(SUCCESS)
    assert not guard.conclude(ERROR)
    assert not guard.conclude(CANCELLED)
    await settled()

    assert heard.outcomes == [SUCCESS]
    assert guard.outcome == SUCCESS
    tasks.check_integrity()


async def test_whoever_concludes_does_not_wait():
    heard = Heard(waits_for=asyncio.Event())
    tasks = TerminalTasks()

    TerminalGuard(heard.fire, tasks).conclude(SUCCESS)

    assert heard.outcomes == []
    assert tasks.statistics.num_running == 1
    assert await tasks.drain(0) == 1


async def test_many_threads_conclude_once():
    heard, tasks = Heard(), TerminalTasks()
    guard = TerminalGuard(heard.fire, tasks)
    firsts = []
    threads = [threading.Thread(target=lambda: firsts.append(guard.conclude(CANCELLED))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await settled()

    assert sum(firsts) == 1
    assert heard.outcomes == [CANCELLED]


def test_without_an_event_loop_nobody_hears():
    heard, tasks = Heard(), TerminalTasks()

    assert TerminalGuard(heard.fire, tasks).conclude(SUCCESS)

    assert heard.outcomes == []
    assert tasks.statistics.num_skipped == 1


def test_after_the_event_loop_has_gone_nobody_hears():
    heard, tasks = Heard(), TerminalTasks()

    async def arm() -> TerminalGuard:
        return TerminalGuard(heard.fire, tasks)

    guard = asyncio.run(arm())

    assert guard.conclude(CANCELLED)
    assert tasks.statistics.num_skipped == 1


async def test_a_drain_waits_for_what_runs_and_then_ends_it():
    release = asyncio.Event()
    quick, slow, tasks = Heard(waits_for=release), Heard(waits_for=asyncio.Event()), TerminalTasks()
    TerminalGuard(quick.fire, tasks).conclude(SUCCESS)
    TerminalGuard(slow.fire, tasks).conclude(SUCCESS)
    draining = asyncio.create_task(tasks.drain(0.05))
    await settled()
    release.set()

    assert await draining == 1
    await settled()
    assert tasks.statistics.num_running == 0
    tasks.check_integrity()


async def test_an_ending_that_fails_is_counted_and_its_message_is_not_told(caplog):
    tasks = TerminalTasks()

    TerminalGuard(Heard(raises=ValueError("swordfish")).fire, tasks).conclude(SUCCESS)
    await settled()

    assert tasks.statistics.num_failed == 1
    assert "swordfish" not in caplog.text


async def test_policies_at_the_end_see_how_it_ended_and_the_effective_request():
    observer, webhooks = Observed(), ScriptedWebhooks({1: WebhookAnswer((Tag("answered"),))})
    exchange = exchange_of(
        policy(HookPoint.BEFORE, Tag("early"), InjectText("oh ")),
        policy(
            TERMINAL,
            CallWebhook(1),
            condition="outcome.kind == 'success' && outcome.text == '42' && text.input == 'oh hi'",
        ),
        observer=observer,
        webhooks=webhooks,
    )
    await exchange.before(chat("hi"))

    exchange.conclude(SUCCESS)
    exchange.conclude(ERROR)
    await settled()

    assert [call.outcome for call in webhooks.calls] == [SUCCESS]
    assert webhooks.calls[0].request.messages[0].text == "oh hi"
    ((request_id, decisions, tags),) = observer.terminal
    assert request_id == "req-1"
    assert [one.point for one in decisions] == [TERMINAL]
    assert dict(tags) == {"answered": ""}


async def test_a_policy_at_the_end_that_fails_refuses_nobody_any_more():
    observer = Observed()
    exchange = exchange_of(policy(TERMINAL, CallWebhook(1)), observer=observer)

    exchange.conclude(SUCCESS)
    await settled()

    ((_, decisions, _),) = observer.terminal
    assert [one.result for one in decisions] == [DecisionResult.FAILED_OPEN]


async def test_an_exchange_that_is_dropped_has_been_cancelled():
    observer = Observed()
    exchange = exchange_of(
        policy(TERMINAL, Tag("gone"), condition="outcome.kind == 'cancelled'"), observer=observer
    )

    del exchange
    gc.collect()
    await settled()

    assert len(observer.terminal) == 1


async def test_a_cancelled_request_that_concludes_is_not_concluded_again_when_it_is_dropped():
    observer = Observed()

    async def request() -> None:
        exchange = exchange_of(policy(TERMINAL, Tag("t")), observer=observer)
        try:
            await asyncio.Event().wait()
        finally:
            exchange.conclude(CANCELLED)

    task = asyncio.create_task(request())
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await settled()

    assert len(observer.terminal) == 1


async def test_a_drained_desk_ends_what_is_open_once():
    observer = Observed()
    desk = desk_of(policy(TERMINAL, Tag("t")), observer=observer)
    exchanges = [
        desk.open(CALLER, model="m", endpoint="messages", opts_in=False, request_id=str(number))
        for number in range(3)
    ]
    exchanges[0].conclude(SUCCESS)

    assert await desk.drain(5) == 0
    for exchange in exchanges:
        exchange.conclude(ERROR)
    await settled()

    assert sorted(request_id for request_id, _, _ in observer.terminal) == ["0", "1", "2"]


async def test_a_drain_gives_up_on_a_webhook_that_hangs():
    async def hang(_call):
        await asyncio.Event().wait()

    webhooks = ScriptedWebhooks({1: hang})
    desk = desk_of(policy(TERMINAL, CallWebhook(1), deadline_s=30.0), webhooks=webhooks)
    exchange = desk.open(CALLER, model="m", endpoint="messages", opts_in=False, request_id="r")
    exchange.conclude(SUCCESS)
    await settled()

    assert await desk.drain(0.01) == 1
    await settled()
    assert webhooks.num_cancelled == 1


async def test_a_denied_request_ends_as_it_was_before_policies_changed_it():
    webhooks = ScriptedWebhooks({1: WebhookAnswer()})
    exchange = exchange_of(
        policy(HookPoint.BEFORE, InjectText("oh ")),
        policy(HookPoint.BEFORE, Deny("no")),
        policy(TERMINAL, CallWebhook(1)),
        webhooks=webhooks,
    )
    view = chat("hi")
    with pytest.raises(HookDenied):
        await exchange.before(view)

    exchange.conclude(TerminalOutcome("denied", 403, message="no"))
    await settled()

    assert webhooks.calls[0].request is view
