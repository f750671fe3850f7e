"""Many rows into the store, whatever one of them is like."""

from __future__ import annotations

from collections.abc import Sequence

from inference.ledger.quarantine import Quarantine
from inference.ledger.rows import RecordRow
from inference.ledger.store import RecordStore, RowRefused


async def insert_all(store: RecordStore, rows: Sequence[RecordRow], quarantine: Quarantine) -> None:
    """Put all rows into the store; those that it refuses go into quarantine. Halves the rows to find
    them, so that one of n costs 2 log2(n) further statements. Raises StoreUnavailable, and then some
    rows may be in it: repeat the call with all of them."""
    if not rows:
        return
    try:
        await store.insert(rows)
    except RowRefused as refusal:
        if len(rows) == 1:
            quarantine.keep(rows[0], str(refusal))
            return
        middle = len(rows) // 2
        await insert_all(store, rows[:middle], quarantine)
        await insert_all(store, rows[middle:], quarantine)
