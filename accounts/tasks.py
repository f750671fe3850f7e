"""Housekeeping of accounts, by Celery. `BEAT_SCHEDULE` is for the site to add to its own."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.core.management import call_command

SESSIONS_CLEAR = "accounts.tasks.sessions_clear"


@shared_task(name=SESSIONS_CLEAR, ignore_result=True)
def sessions_clear() -> None:
    """Delete sign-ins that have run out: Django leaves each of them in the database for ever."""
    call_command("clearsessions", verbosity=0)


# Keys need no task: an expiry is judged when the key is shown.
BEAT_SCHEDULE: dict[str, dict[str, object]] = {
    "sessions-clear": {"task": SESSIONS_CLEAR, "schedule": timedelta(days=1)},
}
