"""Whether the service is open, brought from its row to where requests are let in."""

from __future__ import annotations

from accounts.watched_rows import WatchedRows
from inference.domain.maintenance import OPEN, Maintenance
from inference.ledger.database_calls import database_parameters, in_database
from inference.maintenance.selectors import maintenance_read
from inference.maintenance.services import CHANNEL

MaintenanceWatch = WatchedRows[Maintenance]


def make_maintenance_watch() -> MaintenanceWatch:
    """Of this process."""
    return MaintenanceWatch(
        OPEN, what="notes of maintenance", read=_read, parameters=database_parameters(), channel=CHANNEL
    )


async def _read() -> Maintenance:
    return await in_database(maintenance_read)
