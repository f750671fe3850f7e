"""From what a source reads to the desk that requests ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from hooks.contracts.actions import Deny
from hooks.contracts.decisions import HookDenied, HookFailed
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.snapshots import UNREAD, PolicySnapshot
from hooks.contracts.view import HookCaller, RequestView
from hooks.webhooks.caller import HttpWebhookCaller
from inference.telemetry.policy_metrics import PolicyMetrics
from inference.telemetry.policy_observer import PolicyObserver
from skippy_site.hook_desk import PolicyFeed
from tests.scripted_fleet import SilentRecorder

ADA = HookCaller(1, "ada", 7, "test")
DENY = Policy(policy_id=1, name="no", point=HookPoint.BEFORE, actions=(Deny("No."),), mode=PolicyMode.ENFORCE)


class MemorySource:
    """Implements PolicySource."""

    def __init__(self, snapshot: PolicySnapshot = UNREAD) -> None:
        self.snapshot = snapshot
        self._told: list[Callable[[PolicySnapshot], None]] = []

    def subscribe(self, told: Callable[[PolicySnapshot], None]) -> None:
        self._told.append(told)
        told(self.snapshot)

    def change(self, *policies: Policy) -> None:
        self.snapshot = PolicySnapshot(policies)
        for told in self._told:
            told(self.snapshot)


def made(source: MemorySource) -> PolicyFeed:
    observer = PolicyObserver(PolicyMetrics(CollectorRegistry()), SilentRecorder())
    return PolicyFeed(source, HttpWebhookCaller(), observer)


async def ask(feed: PolicyFeed) -> None:
    exchange = feed.desk.open(ADA, model="m", endpoint="completions", opts_in=False, request_id="r")
    if exchange is not None:
        await exchange.before(RequestView("completions", "m"))


async def test_nothing_is_let_through_until_policies_were_read() -> None:
    source = MemorySource()
    feed = made(source)
    with pytest.raises(HookFailed):
        await ask(feed)
    await feed.start()
    with pytest.raises(HookFailed):
        await ask(feed)
    source.change()
    await feed.settled()
    await ask(feed)
    await feed.stop()


async def test_changes_hold_once_they_are_compiled_and_the_newest_wins() -> None:
    source = MemorySource(PolicySnapshot((DENY,)))
    feed = made(source)
    await feed.start()
    with pytest.raises(HookDenied):
        await ask(feed)
    for number in range(20):
        source.change(replace(DENY, name=f"no {number}"))
    source.change()
    await feed.settled()
    await ask(feed)
    assert feed.desk.policies.policies == ()
    source.change(replace(DENY, condition="request.model == 'm'"))
    await feed.settled()
    with pytest.raises(HookDenied):
        await ask(feed)
    await feed.stop()


async def test_a_stop_concludes_what_is_open() -> None:
    source = MemorySource(PolicySnapshot((replace(DENY, condition="false"),)))
    feed = made(source)
    await feed.start()
    exchange = feed.desk.open(ADA, model="m", endpoint="completions", opts_in=False, request_id="r")
    assert exchange is not None
    async with asyncio.timeout(5):
        await feed.stop()
    source.change(DENY)
    await feed.settled()
