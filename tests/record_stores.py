"""A record store in memory, with every way to fail that a database has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

import orjson

from inference.ledger.rows import RecordRow
from inference.ledger.store import RowRefused, StoreUnavailable


class MemoryStore:
    """Implements inference.ledger.store.RecordStore. Rows with a request id in `poison` are refused."""

    def __init__(self) -> None:
        self.rows: dict[UUID, dict[str, object]] = {}
        self.batches: list[int] = []
        self.poison: set[str] = set()
        self.is_away = False
        self.loses_replies = False
        """Takes the rows and fails all the same."""
        self.gate: asyncio.Event | None = None
        """Where set, each statement waits for it."""

    async def insert(self, rows: Sequence[RecordRow]) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        columns = [orjson.loads(row.json) for row in rows]
        if any(row["request_id"] in self.poison for row in columns):
            raise RowRefused("poison")
        self.batches.append(len(rows))
        for row, values in zip(rows, columns, strict=True):
            self.rows.setdefault(row.record_id, values)
        if self.loses_replies:
            raise StoreUnavailable("no reply")

    async def close(self) -> None:
        return None
