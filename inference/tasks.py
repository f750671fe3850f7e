"""Housekeeping of inference, by Celery. `BEAT_SCHEDULE` is for the site to add to its own."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.db import connection
from django.utils import timezone

from inference.ledger.kept_texts import generation_texts_forget
from inference.ledger.named_requests import named_requests_forget
from inference.ledger.partitions import partitions_ensure

_log = logging.getLogger(__name__)

PARTITIONS_ENSURE = "inference.tasks.record_partitions_ensure"
KEPT_ANSWERS_FORGET = "inference.tasks.kept_answers_forget"


@shared_task(name=PARTITIONS_ENSURE, ignore_result=True)
def record_partitions_ensure() -> None:
    """Make the records' coming months."""
    made = partitions_ensure(connection=connection)
    if made:
        _log.info("partitions of the records were made: %s", ", ".join(month.partition for month in made))


@shared_task(name=KEPT_ANSWERS_FORGET, ignore_result=True)
def kept_answers_forget() -> None:
    """Delete texts and answers whose time is over, in batches, so that no statement takes long."""
    now = timezone.now()
    for forget in (named_requests_forget, generation_texts_forget):
        while forget(now=now):
            pass


BEAT_SCHEDULE: dict[str, dict[str, object]] = {
    "record-partitions-ensure": {"task": PARTITIONS_ENSURE, "schedule": timedelta(hours=6)},
    "kept-answers-forget": {"task": KEPT_ANSWERS_FORGET, "schedule": timedelta(minutes=15)},
}
