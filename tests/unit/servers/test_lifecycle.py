from __future__ import annotations

import asyncio
import signal

from skippy_site.servers.connections import Connections
from skippy_site.servers.contract import ListenConfig
from skippy_site.servers.lifecycle import StopRequests, live

FAST = ListenConfig(drain_grace_s=0.05, last_words_s=0.05, stop_timeout_s=0.1)


class FakeFront:
    def __init__(self, config: ListenConfig, story: list[str]) -> None:
        self.connections = Connections(config)
        self._story = story

    async def open(self) -> None:
        self._story.append("open")

    def begin_drain(self) -> None:
        self._story.append("front.begin_drain")

    def close_listeners(self) -> None:
        self._story.append("close_listeners")


class FakeLifespan:
    def __init__(
        self, story: list[str], *, start_s: float = 0, stop_s: float = 0, fails: bool = False
    ) -> None:
        self._story = story
        self._start_s = start_s
        self._stop_s = stop_s
        self._fails = fails

    async def start(self) -> None:
        self._story.append("start")
        await asyncio.sleep(self._start_s)
        self._story.append("started")

    def begin_drain(self) -> None:
        self._story.append("begin_drain")
        if self._fails:
            raise RuntimeError

    async def stop(self) -> None:
        self._story.append("stop")
        await asyncio.sleep(self._stop_s)
        if self._fails:
            raise RuntimeError


async def run(lifespan: FakeLifespan, story: list[str]) -> int:
    asyncio.get_running_loop().call_later(0.03, signal.raise_signal, signal.SIGTERM)
    return await asyncio.wait_for(live(FakeFront(FAST, story), lifespan, FAST), 5)


async def test_the_order_of_a_clean_life() -> None:
    story: list[str] = []
    assert await run(FakeLifespan(story), story) == 0
    assert story == [
        "open",
        "start",
        "started",
        "begin_drain",
        "front.begin_drain",
        "close_listeners",
        "stop",
    ]


async def test_a_stop_during_the_start_does_not_wait_for_it() -> None:
    story: list[str] = []
    assert await run(FakeLifespan(story, start_s=60), story) == 0
    assert "started" not in story
    assert story[-1] == "stop"


async def test_failing_steps_do_not_prevent_the_others() -> None:
    story: list[str] = []
    assert await run(FakeLifespan(story, fails=True), story) == 1
    assert story[-3:] == ["front.begin_drain", "close_listeners", "stop"]


async def test_a_stop_that_does_not_end_is_a_failure() -> None:
    story: list[str] = []
    assert await run(FakeLifespan(story, stop_s=60), story) == 1


def test_each_signal_means_more_hurry() -> None:
    stop = StopRequests()
    levels = (stop.drain, stop.hurry, stop.now)
    for count in range(1, 5):
        stop.note()
        assert [level.is_set() for level in levels] == [count >= 1, count >= 2, count >= 3]
