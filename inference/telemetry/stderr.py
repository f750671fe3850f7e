"""Telemetry as JSON lines on standard error: for a look at what is told, without a collector."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TextIO

from inference.domain.telemetry_event import TelemetryEvent


class StderrSink:
    """One line an event: event, attributes, start_time_unix_nanos, end_time_unix_nanos."""

    name = "stderr"
    gather_s = 0.0

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr

    def deliver(self, batch: Sequence[TelemetryEvent]) -> None:
        lines = [
            json.dumps(
                {
                    "event": event.name,
                    "attributes": dict(event.attributes),
                    "start_time_unix_nanos": event.start_unix_ns,
                    "end_time_unix_nanos": event.end_unix_ns,
                }
            )
            for event in batch
        ]
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()

    def close(self) -> None:
        """Standard error is not ours to close."""


def is_switched_on(value: str) -> bool:
    """What counts as yes in SKIPPY_TELEMETRY_STDERR: all but blank, 0, false, no and off."""
    return value.strip().lower() not in ("", "0", "false", "no", "off")
