"""How other processes learn that rows were changed: a notification, which Postgres sends at the commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

# The channel of NOTIFY that `hooks.store` listens to.
CHANNEL = "skippy_hooks"
# Any number that no other lock of this database uses: "hooks" in ASCII.
_ROWS_LOCK = 0x686F6F6B73


@contextmanager
def hooks_changing() -> Iterator[None]:
    """A transaction in which nobody else changes policies or webhooks. Whoever reads a row in order to
    change it reads it inside."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ROWS_LOCK])
        yield


def hooks_changed() -> None:
    """Inside of `hooks_changing`: a row was written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CHANNEL])
