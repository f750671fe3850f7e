"""What an action asked for cannot be done to this request."""

from __future__ import annotations


class ActionRefused(Exception):
    """`reason` is for the record, and holds nothing that anybody wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
