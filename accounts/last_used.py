"""When a key was last used, without a write for each request.

Every request notes its key in memory; every half minute all notes go to the database in one
UPDATE. What is lost when the process is killed is at most that half minute of a column that is
read by people.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from channels.db import database_sync_to_async
from django.db import connection
from django.utils import timezone

from accounts.models import ApiKey

logger = logging.getLogger(__name__)

FLUSH_EVERY_S = 30.0
MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class LastUsedStatistics:
    """A picture of the buffer. `num_dropped` counts notes that found it full."""

    num_pending: int
    max_keys: int
    num_written: int
    num_dropped: int
    num_failed_flushes: int


def api_keys_last_used_write(used_at: dict[int, datetime]) -> None:
    """One statement for all keys, by id. Never moves an instant backwards: another process may be ahead.

    Ids that are gone are passed over.
    """
    table = connection.ops.quote_name(ApiKey._meta.db_table)
    ids = sorted(used_at)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} AS k SET last_used_at = noted.used_at "  # noqa: S608 (the table's own name)
            "FROM unnest(%s::bigint[], %s::timestamptz[]) AS noted (key_id, used_at) "
            "WHERE k.id = noted.key_id AND (k.last_used_at IS NULL OR k.last_used_at < noted.used_at)",
            [ids, [used_at[key_id] for key_id in ids]],
        )


class LastUsedBuffer:
    """Notes of used keys, at most `max_keys`, written by `run` every `flush_every_s` seconds.

    `note` is for the path of a request: a clock and a dictionary, no waiting. A failed write is
    kept and tried again with the next one.
    """

    def __init__(
        self,
        *,
        flush_every_s: float = FLUSH_EVERY_S,
        max_keys: int = MAX_KEYS,
        now: Callable[[], datetime] = timezone.now,
        write: Callable[[dict[int, datetime]], None] = api_keys_last_used_write,
    ) -> None:
        self._flush_every_s = flush_every_s
        self._max_keys = max_keys
        self._now = now
        self._write = database_sync_to_async(write, thread_sensitive=False)
        self._lock = threading.Lock()
        self._pending: dict[int, datetime] = {}
        self._flushing = asyncio.Lock()
        self._num_written = 0
        self._num_dropped = 0
        self._num_failed_flushes = 0

    def __repr__(self) -> str:
        s = self.statistics()
        return (
            f"<LastUsedBuffer {s.num_pending}/{s.max_keys} pending, {s.num_written} written, "
            f"{s.num_dropped} dropped, {s.num_failed_flushes} failed flushes>"
        )

    def note(self, key_id: int) -> None:
        """This key was used now."""
        now = self._now()
        with self._lock:
            self._keep(key_id, now)

    async def flush(self) -> bool:
        """Write what was noted so far; False if that failed and was kept for the next time."""
        async with self._flushing:
            with self._lock:
                taken, self._pending = self._pending, {}
            if not taken:
                return True
            is_written = False
            try:
                await self._write(taken)
                is_written = True
            except Exception as error:  # whatever it was, the service goes on and tries again
                # The class only: messages of the database may repeat the statement's parameters.
                logger.warning(
                    "last-used times were not written, trying again later: %s", type(error).__name__
                )
            finally:
                # Also when cancelled: writing the same note twice does no harm.
                self._settle(taken, is_written=is_written)
            return is_written

    async def run(self) -> None:
        """Flush now and then until cancelled, and once more then."""
        try:
            while True:
                await asyncio.sleep(self._flush_every_s)
                await self.flush()
        finally:
            await self.flush()

    def statistics(self) -> LastUsedStatistics:
        with self._lock:
            return LastUsedStatistics(
                num_pending=len(self._pending),
                max_keys=self._max_keys,
                num_written=self._num_written,
                num_dropped=self._num_dropped,
                num_failed_flushes=self._num_failed_flushes,
            )

    def check_integrity(self) -> None:
        """AssertionError if the buffer holds more than it may."""
        s = self.statistics()
        if s.num_pending > s.max_keys:
            raise AssertionError(f"{s.num_pending} notes in a buffer of {s.max_keys}")

    def _keep(self, key_id: int, used_at: datetime) -> None:
        noted = self._pending.get(key_id)
        if noted is None and len(self._pending) >= self._max_keys:
            self._num_dropped += 1
        elif noted is None or noted < used_at:
            self._pending[key_id] = used_at

    def _settle(self, taken: dict[int, datetime], *, is_written: bool) -> None:
        with self._lock:
            if is_written:
                self._num_written += len(taken)
                return
            self._num_failed_flushes += 1
            for key_id, used_at in taken.items():
                self._keep(key_id, used_at)
