"""Group commit, and where records go while the database is away."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import orjson
import pytest

from inference.ledger.entries import Ended, decode
from inference.ledger.journal import JournalFile
from inference.ledger.quarantine import FILE_NAME, Quarantine
from inference.ledger.writer import RecordWriter
from tests.ledger_parts import SmallDisk, row
from tests.record_stores import MemoryStore


class Bench:
    def __init__(self, folder: Path, *, linger_s: float = 0.0) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.disk = SmallDisk()
        self.journal = JournalFile(folder, unix_time=1.0, disk=self.disk)
        self.writer = RecordWriter(
            self.store,
            journal=lambda: self.journal,
            quarantine=Quarantine(folder),
            linger_s=linger_s,
        )

    @property
    def stored(self) -> list[object]:
        return [values["request_id"] for values in self.store.rows.values()]

    def journalled(self) -> list[str]:
        entries = [decode(line) for line in self.journal.path.read_bytes().splitlines(keepends=True)]
        return [orjson.loads(e.row.json)["request_id"] for e in entries if isinstance(e, Ended)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def turns(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def until(is_true, *, patience_s: float = 5.0) -> None:
    async with asyncio.timeout(patience_s):
        while not is_true():
            await asyncio.sleep(0.005)


async def test_one_row_is_committed_at_once(bench):
    await bench.writer.submit(row("a"))

    assert (bench.stored, bench.store.batches) == (["a"], [1])
    assert bench.writer.is_idle and bench.disk.num_syncs == 0


async def test_who_waits_for_nothing_is_taken_along_by_the_next_who_does(tmp_path):
    bench = Bench(tmp_path, linger_s=3600.0)
    refused = [bench.writer.submit(row(name)) for name in "abc"]
    await turns()
    assert not bench.store.batches

    answered = bench.writer.submit(row("d"))
    bench.writer.hurry()
    await answered
    assert (bench.stored, bench.store.batches) == (["a", "b", "c", "d"], [4])
    assert all(safe.done() for safe in refused)


async def test_who_waits_for_nothing_is_committed_after_a_moment(tmp_path):
    bench = Bench(tmp_path, linger_s=0.01)
    refused = [bench.writer.submit(row(name)) for name in "ab"]
    await asyncio.wait_for(asyncio.gather(*refused), 5.0)
    assert bench.store.batches == [2]
    await asyncio.wait_for(bench.writer.submit(row("c")), 5.0)
    assert bench.store.batches == [2, 1]


async def test_hurry_during_a_commit_is_not_forgotten(tmp_path):
    bench = Bench(tmp_path, linger_s=3600.0)
    bench.store.gate = asyncio.Event()
    first = bench.writer.submit(row("a"))
    bench.writer.hurry()
    await turns()
    second, third = bench.writer.submit(row("b")), bench.writer.submit(row("c"))
    bench.writer.hurry()
    bench.store.gate.set()
    await asyncio.wait_for(asyncio.gather(first, second, third), 5.0)
    assert bench.store.batches == [1, 2]


async def test_a_stop_waits_for_those_that_nobody_waits_for(tmp_path):
    bench = Bench(tmp_path, linger_s=3600.0)
    refused = bench.writer.submit(row("a"))
    await bench.writer.stop(patience_s=5.0)
    assert refused.done() and bench.stored == ["a"]


async def test_what_comes_during_a_commit_goes_with_the_next_one(bench):
    bench.store.gate = asyncio.Event()
    first = bench.writer.submit(row("first"))
    await turns()
    others = [bench.writer.submit(row(f"other-{i}")) for i in range(7)]
    await turns()
    assert bench.writer.num_waiting == 8 and not first.done()

    bench.store.gate.set()
    await asyncio.gather(first, *others)

    assert bench.store.batches == [1, 7]
    assert len(bench.writer.take_closed()) == 8 and bench.writer.take_closed() == []


async def test_a_very_large_group_is_split(bench):
    rows = [bench.writer.submit(row(str(i))) for i in range(600)]
    await asyncio.gather(*rows)

    assert bench.store.batches == [256, 256, 88]
    assert bench.stored == [str(i) for i in range(600)]


async def test_while_the_database_is_away_rows_are_synced_to_the_journal_and_go_on(bench):
    bench.store.is_away = True

    await asyncio.gather(bench.writer.submit(row("a")), bench.writer.submit(row("b")))
    await bench.writer.submit(row("c"))

    assert bench.stored == []
    assert bench.journalled() == ["a", "b", "c"]
    assert bench.disk.num_syncs == 2
    assert bench.writer.num_backlog == 3 and not bench.writer.is_idle

    bench.store.is_away = False
    await until(lambda: bench.writer.is_idle)

    assert bench.stored == ["a", "b", "c"]
    assert len(bench.writer.take_closed()) == 3
    await bench.writer.submit(row("d"))
    assert bench.journalled() == ["a", "b", "c"] and bench.stored[-1] == "d"
    await bench.writer.stop(patience_s=1)


async def test_newcomers_go_behind_a_backlog(bench):
    bench.store.is_away = True
    await bench.writer.submit(row("a"))
    bench.store.is_away, bench.store.gate = False, asyncio.Event()
    await asyncio.sleep(0.3)

    await bench.writer.submit(row("b"))
    assert bench.stored == [] and bench.journalled() == ["a", "b"]

    bench.store.gate.set()
    await until(lambda: bench.writer.is_idle)
    assert bench.stored == ["a", "b"]


async def test_a_commit_whose_reply_is_lost_is_there_once(bench):
    bench.store.loses_replies = True
    await bench.writer.submit(row("a"))
    assert bench.stored == ["a"] and bench.journalled() == ["a"]

    bench.store.loses_replies = False
    await until(lambda: bench.writer.is_idle)

    assert bench.stored == ["a"]


@pytest.mark.parametrize("is_away_first", [False, True])
async def test_a_poison_row_goes_into_quarantine_and_holds_up_nobody(bench, is_away_first, caplog):
    bench.store.poison = {"poison"}
    bench.store.is_away = is_away_first
    waiting = [bench.writer.submit(row("poison" if i == 13 else str(i))) for i in range(40)]
    await asyncio.gather(*waiting)
    bench.store.is_away = False
    await until(lambda: bench.writer.is_idle)

    assert bench.stored == [str(i) for i in range(40) if i != 13]
    (line,) = (bench.folder / FILE_NAME).read_bytes().splitlines()
    kept = orjson.loads(line)
    assert (kept["reason"], kept["row"]["request_id"]) == ("poison", "poison")
    assert len(bench.writer.take_closed()) == 40
    assert "put aside" in caplog.text


async def test_where_database_and_journal_fail_nothing_is_said_to_be_safe(bench):
    bench.store.is_away, bench.disk.room_bytes = True, 0
    waiting = bench.writer.submit(row("a"))
    await asyncio.sleep(0.2)
    assert not waiting.done()

    bench.disk.room_bytes = 10_000
    await asyncio.wait_for(waiting, 3)

    assert bench.journalled() == ["a"]
    await bench.writer.stop(patience_s=1)


async def test_a_disk_that_fills_up_within_a_group_repeats_the_group(bench):
    bench.store.is_away = True
    bench.disk.room_bytes = 2000
    waiting = [bench.writer.submit(row(str(i))) for i in range(9)]
    await asyncio.sleep(0.15)
    bench.disk.room_bytes = 10**6
    await asyncio.gather(*waiting)
    bench.store.is_away = False
    await until(lambda: bench.writer.is_idle)

    assert bench.stored == [str(i) for i in range(9)]


async def test_a_journal_that_cannot_be_synced_is_not_trusted(bench):
    class Broken(SmallDisk):
        def sync(self, descriptor: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

    bench.journal = JournalFile(bench.folder, unix_time=2.0, disk=Broken())
    bench.store.is_away = True
    waiting = bench.writer.submit(row("a"))
    await asyncio.sleep(0.2)
    assert not waiting.done()

    bench.store.is_away = False
    await asyncio.wait_for(waiting, 3)
    assert bench.stored == ["a"]


async def test_who_waits_may_leave(bench):
    bench.store.gate = asyncio.Event()
    gone, stays = bench.writer.submit(row("a")), bench.writer.submit(row("b"))
    await turns()
    gone.cancel()
    bench.store.gate.set()

    await stays
    assert bench.stored == ["a", "b"]


async def test_a_stop_does_not_wait_for_a_database_that_is_away(bench):
    bench.store.is_away = True
    await bench.writer.submit(row("a"))

    await asyncio.wait_for(bench.writer.stop(patience_s=5), 1)

    assert bench.journalled() == ["a"]
