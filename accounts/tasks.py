"""Housekeeping of accounts, by Celery. `BEAT_SCHEDULE` is for the site to add to its own."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.core.management import call_command

from accounts.sign_in.attempts import attempts_expire

SESSIONS_CLEAR = "accounts.tasks.sessions_clear"
SIGN_IN_ATTEMPTS_EXPIRE = "accounts.tasks.sign_in_attempts_expire"


@shared_task(name=SESSIONS_CLEAR, ignore_result=True)
def sessions_clear() -> None:
    """Delete sign-ins that have run out: Django leaves each of them in the database for ever."""
    call_command("clearsessions", verbosity=0)


@shared_task(name=SIGN_IN_ATTEMPTS_EXPIRE, ignore_result=True)
def sign_in_attempts_expire() -> None:
    """Delete who failed to sign in, after a day."""
    attempts_expire()


# Keys need no task: an expiry is judged when the key is shown.
BEAT_SCHEDULE: dict[str, dict[str, object]] = {
    "sessions-clear": {"task": SESSIONS_CLEAR, "schedule": timedelta(days=1)},
    "sign-in-attempts-expire": {"task": SIGN_IN_ATTEMPTS_EXPIRE, "schedule": timedelta(hours=6)},
}
