"""Housekeeping: what the daily task removes and what it leaves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery import current_app
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from accounts import tasks


@pytest.mark.django_db
def test_ended_sessions_are_deleted_and_others_stay() -> None:
    ended, live = SessionStore(), SessionStore()
    for session in (ended, live):
        session["a"] = 1
        session.save()
    Session.objects.filter(pk=ended.session_key).update(expire_date=timezone.now() - timedelta(seconds=1))
    tasks.sessions_clear()
    assert list(Session.objects.values_list("pk", flat=True)) == [live.session_key]


def test_the_schedule_names_a_task_that_exists() -> None:
    for entry in tasks.BEAT_SCHEDULE.values():
        assert entry["task"] in current_app.tasks
