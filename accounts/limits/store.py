"""The counters in Postgres, which all server processes share: one truth, and the same one that holds
the records.

A batch is one transaction of two round trips: lock and read what it needs, decide (in Python, by
`Counter`'s rules), write and commit. Rows are locked in the order of their ids, so that no two
transactions wait for each other. It does not wait for the disk: what an outage of Postgres can take
away is worth a minute, but for budgets, which are counted with the records, and for what is open, which
each process says again with every beat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg

from accounts.contracts import BudgetPeriod
from accounts.limits.contracts import LimitScope, LimitsUnavailable
from accounts.limits.counter import BudgetUse, Counter, Owner
from accounts.limits.minute_window import MinuteWindow
from accounts.limits.transaction import Batch, GiveBack, Outcome, Taken, decide
from accounts.postgres_calls import execute

T = TypeVar("T")

PATIENCE_S = 3.0
# As long as it takes to read a month of records.
RECOUNT_PATIENCE_S = 120.0
# A lock is held for milliseconds; what waits longer is a fault.
LOCK_PATIENCE_MS = 2000
DEAD_AFTER_S = 10.0

_COUNTERS = "accounts_limitcounter"
_RESERVATIONS = "accounts_limitreservation"
_PROCESSES = "accounts_limitprocess"
_COUNTER_COLUMNS = (
    "id, scope, owner_id, num_open, num_reserved_tokens, "
    'day_start, day_tokens, week_start, week_tokens, month_start, month_tokens, "window"'
)
_RESERVATION_COLUMNS = "id, key_id, user_id, team_id, slot, num_tokens"


class UsageSource(Protocol):
    """Counts budgets anew from the records; see `PostgresLimitStore.recount`."""

    async def recount(self, connection: psycopg.AsyncConnection[Any], counter_ids: Sequence[int]) -> None:
        """Set the tokens of day, week and month of these counters, in the transaction that is open."""
        ...


@dataclass(slots=True)
class _Row:
    """A counter and where it is stored."""

    id: int
    counter: Counter


class PostgresLimitStore:
    """One connection of its own, made when it is needed. One caller at a time.

    Every method raises LimitsUnavailable where the database is away; then nothing is known of what was
    asked for last: it may have happened.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        process_id: UUID,
        usage: UsageSource,
        dead_after_s: float = DEAD_AFTER_S,
    ) -> None:
        """`parameters` are psycopg's. A process not seen for `dead_after_s` is dead."""
        self._parameters = {"connect_timeout": int(PATIENCE_S), **parameters}
        self._process_id = process_id
        self._usage = usage
        self._dead_before = f"clock_timestamp() - interval '{dead_after_s} seconds'"
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._time_limit: asyncio.Timeout | None = None

    async def run(self, batch: Batch) -> Outcome:
        """Do all of it, or nothing."""
        return await self._guarded(self._run(batch))

    async def beat(self, held: Collection[UUID]) -> int:
        """Say that this process lives and that it holds these reservations. Give back what dead ones held,
        and what this one has given back already, but an outage has undone; how many they were."""
        return await self._guarded(self._beat(held))

    async def leave(self) -> None:
        """This process holds nothing any more and will not come back."""
        await self._guarded(self._leave())

    async def recount(self) -> int:
        """Count all budgets anew from the records; returns how many counters there are.

        Whoever adds to a record's budgets waits meanwhile, so that nothing is counted twice or not at
        all."""
        return await self._guarded(self._recount())

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    # -- a batch ------------------------------------------------------------------------------------

    async def _run(self, batch: Batch) -> Outcome:
        connection = await self._connected()
        owners = batch.owners
        rows, taken, now = await self._read(
            connection, owners, [one.reservation_id for one in batch.given_back]
        )
        missing = owners - rows.keys()
        if missing:
            await _execute(connection, "ROLLBACK")
            await self._make(connection, missing)
            rows, taken, now = await self._read(
                connection, owners, [one.reservation_id for one in batch.given_back]
            )
        decided = decide(batch, {owner: row.counter for owner, row in rows.items()}, taken, now)
        await self._write(connection, [rows[owner] for owner in decided.changed], decided.made, decided.ended)
        return decided.outcome

    async def _read(
        self, connection: psycopg.AsyncConnection[Any], owners: Iterable[Owner], ids: Sequence[UUID]
    ) -> tuple[dict[Owner, _Row], dict[UUID, Taken], float]:
        named = ", ".join(f"('{owner.scope.value}', {int(owner.owner_id)})" for owner in owners) or "('', 0)"
        # One text of several statements is one round trip; nothing in it comes from a caller but ids.
        cursor = await _execute(
            connection,
            "BEGIN; "
            f"LOCK TABLE {_COUNTERS} IN ROW EXCLUSIVE MODE; "
            f"SELECT {_COUNTER_COLUMNS} FROM {_COUNTERS} WHERE (scope, owner_id) IN ({named}) "
            "ORDER BY id FOR UPDATE; "
            f"SELECT {_RESERVATION_COLUMNS} FROM {_RESERVATIONS} WHERE id IN ({_uuids(ids)}) FOR UPDATE; "
            "SELECT extract(epoch FROM clock_timestamp())::float8",
        )
        cursor.nextset()
        cursor.nextset()
        rows = {row.counter.owner: row for row in map(_row, await cursor.fetchall())}
        cursor.nextset()
        taken = {one.id: one for one in map(_taken, await cursor.fetchall())}
        cursor.nextset()
        answer = await cursor.fetchone()
        assert answer is not None
        return rows, taken, answer[0]

    async def _write(
        self,
        connection: psycopg.AsyncConnection[Any],
        rows: Sequence[_Row],
        made: Sequence[Taken],
        ended: Sequence[UUID],
    ) -> None:
        statements = []
        if rows:
            values = ", ".join(map(_values, rows))
            statements.append(
                f'UPDATE {_COUNTERS} AS c SET "window" = n.numbers, num_open = n.num_open, '
                "num_reserved_tokens = n.num_reserved, day_start = n.day_start, day_tokens = n.day_tokens, "
                "week_start = n.week_start, week_tokens = n.week_tokens, month_start = n.month_start, "
                f"month_tokens = n.month_tokens FROM (VALUES {values}) AS n (id, numbers, num_open, "
                "num_reserved, day_start, day_tokens, week_start, week_tokens, month_start, month_tokens) "
                "WHERE c.id = n.id"
            )
        if made:
            values = ", ".join(self._reservation_values(one) for one in made)
            statements.append(
                f"INSERT INTO {_RESERVATIONS} (process_id, {_RESERVATION_COLUMNS}) VALUES {values}"
            )
        if ended:
            statements.append(f"DELETE FROM {_RESERVATIONS} WHERE id IN ({_uuids(ended)})")
        await _execute(connection, "; ".join([*statements, "COMMIT"]))

    def _reservation_values(self, one: Taken) -> str:
        ids = {owner.scope: str(int(owner.owner_id)) for owner in one.owners}
        named = ", ".join(ids.get(scope, "NULL") for scope in LimitScope)
        return f"('{self._process_id}', '{one.id}', {named}, {int(one.slot)}, {int(one.num_tokens)})"

    # -- counters that are new, or counted anew -------------------------------------------------------

    async def _make(self, connection: psycopg.AsyncConnection[Any], owners: Iterable[Owner]) -> None:
        values = ", ".join(
            f"('{owner.scope.value}', {int(owner.owner_id)}, '{{}}'::bigint[], 0, 0, "
            "'epoch', 0, 'epoch', 0, 'epoch', 0)"
            for owner in owners
        )
        await self._begin_recount(connection)
        cursor = await _execute(
            connection,
            f'INSERT INTO {_COUNTERS} (scope, owner_id, "window", num_open, num_reserved_tokens, day_start, '
            "day_tokens, week_start, week_tokens, month_start, month_tokens) "
            f"VALUES {values} ON CONFLICT (scope, owner_id) DO NOTHING RETURNING id",
        )
        made = [row[0] for row in await cursor.fetchall()]
        if made:
            await self._usage.recount(connection, made)
        await _execute(connection, "COMMIT")

    async def _recount(self) -> int:
        connection = await self._connected()
        await self._begin_recount(connection)
        cursor = await _execute(connection, f"SELECT id FROM {_COUNTERS}")
        ids = [row[0] for row in await cursor.fetchall()]
        if ids:
            await self._usage.recount(connection, ids)
        await _execute(connection, "COMMIT")
        return len(ids)

    async def _begin_recount(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """Until the transaction ends, records wait that would add to budgets. It may take its time."""
        assert self._time_limit is not None
        self._time_limit.reschedule(asyncio.get_running_loop().time() + RECOUNT_PATIENCE_S)
        await _execute(
            connection,
            f"BEGIN; SET LOCAL statement_timeout = {int(RECOUNT_PATIENCE_S * 1000)}; "
            f"LOCK TABLE {_COUNTERS} IN SHARE ROW EXCLUSIVE MODE",
        )

    # -- the life of processes ------------------------------------------------------------------------

    async def _beat(self, held: Collection[UUID]) -> int:
        connection = await self._connected()
        await _execute(
            connection,
            f"INSERT INTO {_PROCESSES} (id, seen_at) VALUES ('{self._process_id}', clock_timestamp()) "
            "ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        )
        # Also of processes that are not known at all: their row went with an outage.
        cursor = await _execute(
            connection,
            f"SELECT {_RESERVATION_COLUMNS} FROM {_RESERVATIONS} AS r WHERE process_id = "
            f"'{self._process_id}' OR NOT EXISTS (SELECT FROM "
            f"{_PROCESSES} AS p WHERE p.id = r.process_id AND p.seen_at > {self._dead_before})",
        )
        dead = [one for one in map(_taken, await cursor.fetchall()) if one.id not in held]
        if dead:
            await self._run(Batch(given_back=tuple(GiveBack(one.id, one.owners, None) for one in dead)))
        await _execute(connection, f"DELETE FROM {_PROCESSES} WHERE seen_at < {self._dead_before}")
        return len(dead)

    async def _leave(self) -> None:
        connection = await self._connected()
        cursor = await _execute(
            connection,
            f"SELECT {_RESERVATION_COLUMNS} FROM {_RESERVATIONS} WHERE process_id = '{self._process_id}'",
        )
        left = [_taken(row) for row in await cursor.fetchall()]
        if left:
            await self._run(Batch(given_back=tuple(GiveBack(one.id, one.owners, None) for one in left)))
        await _execute(connection, f"DELETE FROM {_PROCESSES} WHERE id = '{self._process_id}'")

    # -- the connection -------------------------------------------------------------------------------

    async def _guarded(self, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(2 * PATIENCE_S) as self._time_limit:
                return await work
        except (psycopg.Error, OSError, TimeoutError) as error:
            await self.close()
            # The class only: messages of the database may repeat a statement.
            raise LimitsUnavailable(type(error).__name__) from None
        except BaseException:
            # Nobody knows where its transaction is.
            await self.close()
            raise

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                **self._parameters,
                autocommit=True,
                prepare_threshold=None,  # a prepared statement is one statement, and these are several
            )
            await _execute(
                self._connection,
                f"SET synchronous_commit = off; SET lock_timeout = {LOCK_PATIENCE_MS}; "
                f"SET statement_timeout = {int(PATIENCE_S * 1000)}",
            )
        return self._connection


async def _execute(connection: psycopg.AsyncConnection[Any], statements: str) -> psycopg.AsyncCursor[Any]:
    return await execute(connection, statements.encode())


def _row(row: Sequence[Any]) -> _Row:
    budgets = {
        BudgetPeriod.DAY: BudgetUse(row[5], row[6]),
        BudgetPeriod.WEEK: BudgetUse(row[7], row[8]),
        BudgetPeriod.MONTH: BudgetUse(row[9], row[10]),
    }
    owner = Owner(LimitScope(row[1]), row[2])
    return _Row(row[0], Counter(owner, MinuteWindow.from_numbers(row[11]), row[3], row[4], budgets))


def _values(row: _Row) -> str:
    counter = row.counter
    budgets = ", ".join(
        f"'{counter.used[period].start}'::date, {counter.used[period].num_tokens}::bigint"
        for period in BudgetPeriod
    )
    numbers = ",".join(str(int(number)) for number in counter.window.numbers())
    return (
        f"({row.id}::bigint, '{{{numbers}}}'::bigint[], {counter.num_open}::bigint, "
        f"{counter.num_reserved_tokens}::bigint, {budgets})"
    )


def _taken(row: Sequence[Any]) -> Taken:
    owners = tuple(
        Owner(scope, owner_id)
        for scope, owner_id in zip(LimitScope, row[1:4], strict=True)
        if owner_id is not None
    )
    return Taken(row[0], owners, row[4], row[5])


def _uuids(ids: Iterable[UUID]) -> str:
    return ", ".join(f"'{one}'" for one in ids) or "NULL"
