"""Where past requests come from, and who does long work: hooks know neither records nor the broker.

The site names what makes its own in the settings HOOK_REPLAY_SOURCE and HOOK_TASK_SENDER.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.replaying import PastRequest, RecordPoint

ADVANCE_TASK = "hooks.tasks.replay_advance"


class ReplaySource(Protocol):
    def count(self, start_at: datetime, end_at: datetime) -> int:
        """Records that arrived from `start_at` on and before `end_at`."""
        ...

    def page(
        self,
        start_at: datetime,
        end_at: datetime,
        *,
        after: RecordPoint | None,
        limit: int,
        with_texts: bool,
    ) -> Iterator[PastRequest]:
        """The next `limit` of them, oldest first, read as they are asked for: texts a few at a time, however
        many and long they are."""
        ...


def replay_source() -> ReplaySource:
    found: ReplaySource = import_string(settings.HOOK_REPLAY_SOURCE)()
    return found


def advance_send(replay_id: int) -> bool:
    """Have a worker do the next slice; False where the broker does not take it, which the next round of
    housekeeping makes up for."""
    sent: bool = import_string(settings.HOOK_TASK_SENDER)(ADVANCE_TASK, replay_id)
    return sent
