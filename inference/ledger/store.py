"""Puts rows into the database: many by one statement, which is one transaction and one round trip.

A row that is there already is passed over, so that a repetition is always safe: a commit whose reply
was lost, a journal that two processes replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import psycopg

from accounts.postgres_calls import execute
from inference.ledger.rows import COLUMNS, RecordRow

TABLE = "inference_generationrecord"
_NAMES = ", ".join(COLUMNS)
_INSERT = (
    f"INSERT INTO {TABLE} ({_NAMES}) SELECT {_NAMES} "  # noqa: S608 - names of our own
    f"FROM jsonb_populate_recordset(NULL::{TABLE}, %s::text::jsonb) ON CONFLICT (id, created_at) DO NOTHING"
)
# SQLSTATE classes that speak of a row's values: data exceptions, constraints, limits of a value's size.
_CLASSES_OF_ROWS = ("22", "23", "54")
CONNECT_PATIENCE_S = 3.0
COMMIT_PATIENCE_S = 3.0


class StoreUnavailable(Exception):
    """The database did not take the rows, for no fault of theirs. They may be in it all the same."""


class RowRefused(Exception):
    """The database answered that a row cannot be: none of them is in it."""


class RecordStore(Protocol):
    async def insert(self, rows: Sequence[RecordRow]) -> None:
        """All of them or none; return when they are durable. Raises StoreUnavailable or RowRefused."""
        ...

    async def close(self) -> None: ...


class PostgresRecordStore:
    """A RecordStore with a connection of its own, made when it is needed. One caller at a time."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """`parameters` are psycopg's (libpq's)."""
        self._parameters = {"connect_timeout": int(CONNECT_PATIENCE_S), **parameters}
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def insert(self, rows: Sequence[RecordRow]) -> None:
        payload = (b"[" + b",".join([row.json for row in rows]) + b"]").decode()
        try:
            connection = await self._connected()
            await _execute(connection, _INSERT, (payload,))
        except (psycopg.Error, OSError, TimeoutError) as error:
            if isinstance(error, psycopg.Error) and (error.sqlstate or "")[:2] in _CLASSES_OF_ROWS:
                raise RowRefused(_shown(error)) from None
            await self.close()
            raise StoreUnavailable(_shown(error)) from None
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
            # What is said to be safe is on the database's disk, whatever its default is.
            await _execute(self._connection, "SET synchronous_commit = on")
        return self._connection


async def _execute(connection: psycopg.AsyncConnection[Any], statement: str, *rest: Any) -> None:
    """Raises psycopg.Error, and TimeoutError where no answer comes in time."""
    async with asyncio.timeout(COMMIT_PATIENCE_S):
        await execute(connection, statement.encode(), *rest)


def _shown(error: BaseException) -> str:
    """The class and the SQLSTATE: messages of the database may repeat what a row says."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return f"{type(error).__name__} {state}" if state else type(error).__name__
