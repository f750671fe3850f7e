"""How much is told: nothing, what an operator reads, or every phase of every request."""

from __future__ import annotations

from enum import IntEnum


class TelemetryLevel(IntEnum):
    """Ordered: a sink of one level takes everything up to it."""

    OFF = 0
    SUMMARY = 1
    DEBUG = 2

    @classmethod
    def named(cls, name: str) -> TelemetryLevel:
        """`off`, `summary` or `debug`; raises KeyError for anything else."""
        return cls[name.upper()]
