"""What tests of the ledger are made of: requests, rows, and a disk that fills up."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from inference.domain.errors import SkippyError
from inference.domain.events import FinishReason, Usage
from inference.domain.outcomes import Outcome, RequestSummary
from inference.domain.record_ids import new_record_id
from inference.ledger.journal import SUFFIX, SystemDisk
from inference.ledger.rows import RecordRow

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def summary(request_id: str = "r", **changes) -> RequestSummary:
    made = RequestSummary(
        record_id=new_record_id(NOW),
        created_at=NOW,
        request_id=request_id,
        endpoint="chat.completions",
        model="m",
        user_id=1,
        key_id=2,
        is_stream=True,
        outcome=Outcome.COMPLETED,
        status=200,
        finish_reason=FinishReason.STOP,
        usage=Usage(10, 5, 2),
        max_tokens=50,
        total_s=1.5,
    )
    return replace(made, **changes)


def row(request_id: str = "r", **changes) -> RecordRow:
    return RecordRow.of(summary(request_id, **changes))


@dataclass
class Live:
    """Implements domain.ledger.LiveRequest."""

    ending: RequestSummary = field(default_factory=summary)
    usage: Usage | None = None
    interruptions: list[SkippyError] = field(default_factory=list)
    is_ending: bool = False

    @property
    def record_id(self) -> UUID:
        return self.ending.record_id

    @property
    def is_running(self) -> bool:
        return self.usage is not None

    def summary_now(self) -> RequestSummary:
        return replace(
            self.ending,
            outcome=Outcome.INTERRUPTED,
            status=500,
            error_code="interrupted",
            finish_reason=None,
            usage=self.usage,
        )

    def interrupt(self, error: SkippyError) -> bool:
        if not self.is_ending:
            self.interruptions.append(error)
        return not self.is_ending

    def after(self, total_s: float) -> None:
        self.ending = replace(self.ending, total_s=total_s)


class SmallDisk(SystemDisk):
    """Implements journal.Disk over the real one, with room for so many bytes more."""

    def __init__(self, room_bytes: int = 10**9) -> None:
        self.room_bytes = room_bytes
        self.num_syncs = 0

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room_bytes <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(descriptor, data[: self.room_bytes])
        self.room_bytes -= written
        return written

    def sync(self, descriptor: int) -> None:
        self.num_syncs += 1
        super().sync(descriptor)

    def free_bytes(self, folder: Path) -> int:
        return self.room_bytes


def journals(folder: Path) -> Sequence[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))
