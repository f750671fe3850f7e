"""The journal under every history: outages, poison, kills at any byte. What was said to be safe is in the
database once, as it was; every other request that was opened is there once, interrupted."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.domain.events import Usage
from inference.domain.outcomes import RequestSummary
from inference.ledger.entries import Closed, Ended, Opened, Progressed, encode
from inference.ledger.generation_ledger import GenerationLedger
from inference.ledger.replay import unfinished
from inference.ledger.rows import Progress, RecordRow
from tests.clocks import FakeClock
from tests.ledger_parts import Live, SmallDisk, journals, summary
from tests.record_stores import MemoryStore

STEPS = st.lists(
    st.sampled_from(
        ["open", "open", "end", "end", "end poison", "token", "token", "tick", "away", "back", "lose", "wait"]
    ),
    max_size=40,
)


class History:
    """One process after another on one folder and one database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.store.poison = {"poison"}
        self.live: list[Live] = []
        self.opened: dict[UUID, Live] = {}
        self.safe: dict[UUID, RequestSummary] = {}
        self.poisoned: set[UUID] = set()
        self.waits: list[tuple[RequestSummary, asyncio.Future[None]]] = []
        self.ledger: GenerationLedger

    async def start(self) -> None:
        self.ledger = GenerationLedger(
            self.folder,
            make_store=lambda: self.store,
            clock=FakeClock(),
            disk=SmallDisk(),
            max_journal_bytes=4000,
        )
        await self.ledger.start()

    async def step(self, what: str) -> None:
        match what:
            case "open":
                live = Live(summary(str(len(self.opened))))
                self.ledger.open(live)
                self.live.append(live)
                self.opened[live.record_id] = live
            case "end" | "end poison" if self.live:
                live = self.live.pop(0)
                ending = replace(live.ending, usage=live.usage or Usage(1, 0))
                if what == "end poison":
                    ending = replace(ending, request_id="poison")
                    self.poisoned.add(ending.record_id)
                self.waits.append((ending, self.ledger.record(ending)))
            case "token":
                for live in self.live:
                    usage = live.usage or Usage(3, 0)
                    live.usage = replace(usage, completion_tokens=usage.completion_tokens + 1)
            case "tick":
                self.ledger.tick()
            case "away" | "back":
                self.store.is_away, self.store.loses_replies = what == "away", False
            case "lose":
                self.store.loses_replies = True
            case "wait":
                await asyncio.sleep(0.002)
        await asyncio.sleep(0)
        self.note_safe()

    def note_safe(self) -> None:
        self.safe.update({s.record_id: s for s, wait in self.waits if wait.done() and not wait.cancelled()})

    async def kill(self, *, torn_bytes: int) -> None:
        ledger = self.ledger
        for task in [*ledger._tasks, ledger._writer._working, ledger._writer._draining]:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        self.note_safe()
        file = ledger._file
        # What was appended and not synced may be torn by the machine's death; what was synced is not.
        length = file.num_bytes
        file.close(is_done=False)
        self.live.clear()
        self.waits.clear()
        if torn_bytes:
            with file.path.open("ab") as torn:
                torn.write(b'deadbeef ["end",{"id":"' + b"x" * torn_bytes)
        assert length <= file.path.stat().st_size

    async def recovered(self) -> None:
        self.store.is_away = self.store.loses_replies = False
        async with asyncio.timeout(10):
            while len(journals(self.folder)) > 1 or not self.ledger._writer.is_idle:
                await asyncio.sleep(0.002)


async def _live_through(lives: list[tuple[list[str], int]]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="skippy-ledger-"))
    try:
        history = History(folder)
        for steps, torn_bytes in lives:
            await history.start()
            for step in steps:
                await history.step(step)
            await history.kill(torn_bytes=torn_bytes)
        await history.start()
        await history.recovered()
        await history.ledger.stop()
        _check(history)
        assert journals(folder) == []
    finally:
        shutil.rmtree(folder)


def _check(history: History) -> None:
    rows = history.store.rows
    assert set(rows) <= set(history.opened)
    for record_id, live in history.opened.items():
        if record_id in history.poisoned:
            # In quarantine; should the process have died before it noted that, interrupted as well.
            assert record_id not in rows or rows[record_id]["outcome"] == "interrupted"
            continue
        row = rows[record_id]
        num_output = row["num_output_tokens"]
        assert (
            isinstance(num_output, int) and 0 <= num_output <= (live.usage or Usage(0, 0)).completion_tokens
        )
        if record_id in history.safe:
            ending = history.safe[record_id]
            assert (row["outcome"], num_output) == ("completed", ending.usage.completion_tokens)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 30)), min_size=1, max_size=3))
def test_what_was_safe_is_recorded_as_it_was_and_all_else_once(lives) -> None:
    asyncio.run(_live_through(lives))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["open", "progress", "end", "closed"]), max_size=12), st.data())
def test_a_journal_that_is_cut_at_any_byte_says_what_its_whole_lines_say(kinds, data) -> None:
    lives = [Live(summary(str(i)), Usage(3, i)) for i in range(3)]
    lines = []
    for kind in kinds:
        live = data.draw(st.sampled_from(lives))
        now = live.summary_now()
        lines.append(
            encode(
                {
                    "open": Opened(RecordRow.of(now)),
                    "progress": Progressed((Progress.of(now),)),
                    "end": Ended(RecordRow.of(live.ending)),
                    "closed": Closed((live.record_id,)),
                }[kind]
            )
        )
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    num_whole = whole[:cut].count(b"\n")

    torn = unfinished((whole[:cut]).splitlines(keepends=True))

    kept = unfinished(lines[:num_whole])
    assert torn.rows == kept.rows
    assert torn.num_damaged_lines == (cut not in (0, *_ends(lines)))


def _ends(lines: list[bytes]) -> list[int]:
    return [sum(len(line) for line in lines[: n + 1]) for n in range(len(lines))]


@given(st.binary(max_size=300))
def test_rubbish_is_no_journal_and_no_harm(rubbish) -> None:
    todo = unfinished(rubbish.splitlines(keepends=True))

    assert todo.rows == ()


@pytest.mark.parametrize("torn_bytes", [0, 1, 17])
def test_an_empty_life_leaves_nothing(torn_bytes) -> None:
    asyncio.run(_live_through([([], torn_bytes)]))
