"""The whole ledger over a store in memory: openings, progress, endings, deaths and full disks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from inference.domain.errors import ServiceUnavailable
from inference.domain.events import Usage
from inference.ledger.generation_ledger import MIN_FREE_BYTES, GenerationLedger
from tests.clocks import FakeClock
from tests.ledger_parts import Live, SmallDisk, journals, summary
from tests.record_stores import MemoryStore


class Bench:
    """A folder and a store that outlive the processes (ledgers) that use them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.disk = SmallDisk()
        self.max_journal_bytes = 10**9
        self.ledger: GenerationLedger

    async def start(self) -> GenerationLedger:
        self.ledger = GenerationLedger(
            self.folder,
            make_store=lambda: self.store,
            clock=FakeClock(),
            disk=self.disk,
            max_journal_bytes=self.max_journal_bytes,
        )
        await self.ledger.start()
        return self.ledger

    async def kill(self) -> None:
        """The process is gone without another word: nothing is written, its lock is free."""
        ledger = self.ledger
        for task in [*ledger._tasks, ledger._writer._working, ledger._writer._draining]:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        assert ledger._current is not None
        ledger._current.close(is_done=False)

    async def recovered(self) -> None:
        async with asyncio.timeout(5):
            while len(journals(self.folder)) > 1:
                await asyncio.sleep(0.01)

    def outcomes(self) -> dict[object, object]:
        return {values["request_id"]: values["outcome"] for values in self.store.rows.values()}


@pytest.fixture
async def bench(tmp_path: Path):
    made = Bench(tmp_path)
    await made.start()
    yield made
    if made.ledger._current is not None:
        await made.ledger.stop()


async def test_a_request_leaves_one_record_and_a_stopped_service_no_journal(bench):
    live = Live()
    bench.ledger.open(live)
    assert bench.ledger.statistics().num_live == 1

    await bench.ledger.record(live.ending)
    statistics = bench.ledger.statistics()
    await bench.ledger.stop()

    assert (statistics.num_live, statistics.total_committed, statistics.fault) == (0, 1, None)
    assert bench.outcomes() == {"r": "completed"}
    assert journals(bench.folder) == []


async def test_a_request_whose_process_dies_becomes_an_interrupted_record(bench):
    done, running, fresh = Live(summary("done")), Live(summary("running")), Live(summary("fresh"))
    for live in (done, running, fresh):
        bench.ledger.open(live)
    await bench.ledger.record(done.ending)
    running.usage = Usage(10, 4, 1)
    bench.ledger.tick()
    running.usage = Usage(10, 9, 1)
    await bench.kill()

    await bench.start()
    await bench.recovered()

    assert bench.outcomes() == {"done": "completed", "running": "interrupted", "fresh": "interrupted"}
    rows = {values["request_id"]: values for values in bench.store.rows.values()}
    assert (rows["running"]["num_output_tokens"], rows["running"]["max_tokens"]) == (4, 50)
    assert rows["fresh"]["num_output_tokens"] == 0
    assert bench.ledger.statistics().total_recovered == 2


async def test_a_record_that_was_committed_but_not_closed_is_not_unmade(bench):
    live = Live()
    bench.ledger.open(live)
    await bench.ledger.record(live.ending)
    await bench.kill()

    await bench.start()
    await bench.recovered()

    assert bench.outcomes() == {"r": "completed"}


async def test_what_was_journalled_while_the_database_was_away_survives_the_process(bench):
    bench.store.is_away = True
    lives = [Live(summary(str(i))) for i in range(5)]
    for live in lives:
        bench.ledger.open(live)
    for live in lives[:4]:
        await bench.ledger.record(live.ending)
    await bench.kill()

    await bench.start()
    await asyncio.sleep(0.25)
    assert len(journals(bench.folder)) == 2
    bench.store.is_away = False
    await bench.recovered()

    assert list(bench.outcomes().items()) == [
        *[(str(i), "completed") for i in range(4)],
        ("4", "interrupted"),
    ]


async def test_a_recovery_that_is_killed_is_done_again(bench):
    bench.ledger.open(Live(summary("a")))
    await bench.kill()
    bench.store.is_away = True
    await bench.start()
    bench.ledger.open(Live(summary("b")))
    await asyncio.sleep(0.05)
    await bench.kill()
    bench.store.is_away = False

    await bench.start()
    await bench.recovered()

    assert bench.outcomes() == {"a": "interrupted", "b": "interrupted"}


async def test_a_torn_last_line_costs_nothing_else(bench):
    for name in ("a", "b"):
        bench.ledger.open(Live(summary(name)))
    await bench.kill()
    (path,) = journals(bench.folder)
    path.write_bytes(path.read_bytes()[:-10])

    await bench.start()
    await bench.recovered()

    assert bench.outcomes() == {"a": "interrupted"}
    assert bench.ledger.statistics().total_damaged_lines == 1


async def test_a_full_disk_refuses_newcomers_until_there_is_room_again(bench):
    running = Live(summary("running"))
    bench.ledger.open(running)
    before = journals(bench.folder)[0].read_bytes()
    bench.disk.room_bytes = 100

    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match="no space left") as refusal:
            bench.ledger.open(Live(summary("newcomer")))
    assert refusal.value.retry_after_s
    assert bench.ledger.fault == "no space left on device"
    assert journals(bench.folder)[0].read_bytes() == before
    bench.ledger.note(running)
    await bench.ledger.record(running.ending)
    assert bench.outcomes() == {"running": "completed"}

    bench.disk.room_bytes = 10**9
    bench.ledger.tick()
    assert bench.ledger.fault is None
    bench.ledger.open(Live(summary("later")))
    await bench.kill()
    await bench.start()
    await bench.recovered()
    assert bench.outcomes() == {"running": "completed", "later": "interrupted"}


async def test_newcomers_are_refused_before_there_is_no_room_for_those_who_run(bench):
    bench.ledger.open(Live())
    bench.disk.room_bytes = MIN_FREE_BYTES - 1

    bench.ledger.tick()

    with pytest.raises(ServiceUnavailable, match="nearly full"):
        bench.ledger.open(Live())
    bench.ledger.tick()
    assert bench.ledger.fault == "the disk is nearly full"


async def test_a_large_journal_is_replaced_by_one_that_has_what_still_runs(bench):
    bench.max_journal_bytes = 3000
    await bench.ledger.stop()
    await bench.start()
    running = Live(summary("running"))
    bench.ledger.open(running)
    for i in range(20):
        live = Live(summary(str(i)))
        bench.ledger.open(live)
        await bench.ledger.record(live.ending)
    (old,) = journals(bench.folder)

    bench.ledger.tick()

    (new,) = journals(bench.folder)
    assert new != old and new.stat().st_size < 2000
    await bench.kill()
    await bench.start()
    await bench.recovered()
    assert bench.outcomes()["running"] == "interrupted" and len(bench.store.rows) == 21


async def test_a_journal_with_a_backlog_is_not_replaced(bench):
    bench.max_journal_bytes = 10
    await bench.ledger.stop()
    await bench.start()
    bench.store.is_away = True
    live = Live()
    bench.ledger.open(live)
    await bench.ledger.record(live.ending)
    (old,) = journals(bench.folder)

    bench.ledger.tick()

    assert journals(bench.folder) == [old]


async def test_progress_is_noted_every_second_by_itself(bench):
    live = Live(usage=Usage(10, 3))
    bench.ledger.open(live)
    await asyncio.sleep(1.2)
    await bench.kill()

    await bench.start()
    await bench.recovered()

    (values,) = bench.store.rows.values()
    assert values["num_output_tokens"] == 3


async def test_two_requests_with_one_request_id_are_two_records(bench):
    for _ in range(2):
        live = Live(replace(summary("same")))
        bench.ledger.open(live)
        await bench.ledger.record(live.ending)

    assert len(bench.store.rows) == 2


async def test_nothing_is_taken_before_the_start_and_after_the_stop(bench):
    await bench.ledger.stop()
    with pytest.raises(ServiceUnavailable):
        bench.ledger.open(Live())
