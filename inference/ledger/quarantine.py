"""Where a record goes that the database will never take, so that it is neither lost nor in the way."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import orjson

from inference.ledger.rows import RecordRow

_log = logging.getLogger(__name__)

FILE_NAME = "quarantine.jsonl"


class Quarantine:
    """One JSON line for each refused row, with the reason. A person looks at it; nothing reads it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self.total_kept = 0

    def keep(self, row: RecordRow, reason: str) -> None:
        """Never raises: there is nothing better that could be done with the row."""
        self.total_kept += 1
        _log.error("record %s was refused by the database (%s) and put aside", row.record_id, reason)
        line = orjson.dumps({"reason": reason, "row": orjson.Fragment(row.json)}) + b"\n"
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            _log.critical("record %s could not even be put aside: %s", row.record_id, error.strerror)
