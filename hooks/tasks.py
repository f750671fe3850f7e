"""What a worker does for policies. Each task may be delivered twice, late, or beside itself.

When the second one is sent is the site's to say (CELERY_BEAT_SCHEDULE).
"""

from __future__ import annotations

from celery import shared_task

from hooks.services.replay_slices import replay_advance_and_send
from hooks.services.replay_source import ADVANCE_TASK
from hooks.services.replays import replays_tend

TEND_TASK = "hooks.tasks.replays_tend"


@shared_task(name=ADVANCE_TASK, ignore_result=True)
def advance(replay_id: int) -> None:
    """A few seconds of one replay."""
    replay_advance_and_send(replay_id=replay_id)


@shared_task(name=TEND_TASK, ignore_result=True)
def tend() -> None:
    """See to replays that nobody goes on with."""
    replays_tend()
