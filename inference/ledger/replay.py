"""What a journal says is still to be done: records that the database lacks, and requests that never ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import orjson

from inference.ledger.entries import Closed, Ended, Opened, Progressed, read_lines
from inference.ledger.rows import PROGRESS_COLUMNS, Progress, RecordRow


@dataclass(frozen=True, slots=True)
class Unfinished:
    """In the order in which they are to be recorded: first what ended (in order), then what did not."""

    ended: tuple[RecordRow, ...]
    interrupted: tuple[RecordRow, ...]
    num_damaged_lines: int

    @property
    def rows(self) -> tuple[RecordRow, ...]:
        return self.ended + self.interrupted


def unfinished(lines: Iterable[bytes]) -> Unfinished:
    """Read a journal, however it broke off. A damaged line costs what it said and nothing else."""
    opened: dict[UUID, RecordRow] = {}
    progress: dict[UUID, Progress] = {}
    ended: dict[UUID, RecordRow] = {}
    num_damaged = 0
    for entry in read_lines(lines):
        match entry:
            case Opened(row):
                opened[row.record_id] = row
            case Progressed(requests):
                progress.update((request.record_id, request) for request in requests)
            case Ended(row):
                ended[row.record_id] = row
                opened.pop(row.record_id, None)
            case Closed(record_ids):
                for record_id in record_ids:
                    for book in (opened, progress, ended):
                        book.pop(record_id, None)
            case None:
                num_damaged += 1
    interrupted = [_with_progress(row, progress.get(record_id)) for record_id, row in opened.items()]
    return Unfinished(tuple(ended.values()), tuple(interrupted), num_damaged)


def _with_progress(row: RecordRow, progress: Progress | None) -> RecordRow:
    if progress is None:
        return row
    columns = orjson.loads(row.json)
    columns.update({name: getattr(progress, name) for name in PROGRESS_COLUMNS})
    return RecordRow(row.record_id, orjson.dumps(columns))
