"""What an administrator has said of the whole service: that it is not open to everybody now."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from inference.domain.errors import UnderMaintenance
from inference.domain.rejection_reason import RejectionReason

DEFAULT_MESSAGE = "The service is under maintenance. Please try again later."
# Where nobody has said until when, or that time is over and it has not been opened.
DEFAULT_RETRY_AFTER_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """`message` is told to whoever is refused. `until` (aware) is when it is planned to end: a promise to
    clients, which opens nothing. `let_user_ids` and `let_key_ids` are let through. `refuses_queued`: what
    has no lane when it begins is refused as well."""

    is_on: bool = False
    message: str = ""
    until: datetime | None = None
    refuses_queued: bool = False
    let_user_ids: frozenset[int] = frozenset()
    let_key_ids: frozenset[int] = frozenset()

    def lets(self, *, user_id: int, key_id: int) -> bool:
        return not self.is_on or user_id in self.let_user_ids or key_id in self.let_key_ids

    def refusal(self, *, unix_time: float) -> UnderMaintenance:
        """What is said to a newcomer at that time."""
        left_s = 0.0 if self.until is None else self.until.timestamp() - unix_time
        return UnderMaintenance(
            self.message or DEFAULT_MESSAGE,
            retry_after_s=math.ceil(left_s) if left_s > 0 else DEFAULT_RETRY_AFTER_S,
            reason=RejectionReason.MAINTENANCE,
        )


OPEN = Maintenance()
