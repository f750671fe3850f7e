"""Housekeeping of inference, by Celery. `BEAT_SCHEDULE` is for the site to add to its own."""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.db import connection

from inference.ledger.partitions import partitions_ensure

_log = logging.getLogger(__name__)

PARTITIONS_ENSURE = "inference.tasks.record_partitions_ensure"


@shared_task(name=PARTITIONS_ENSURE, ignore_result=True)
def record_partitions_ensure() -> None:
    """Make the records' coming months."""
    made = partitions_ensure(connection=connection)
    if made:
        _log.info("partitions of the records were made: %s", ", ".join(month.partition for month in made))


BEAT_SCHEDULE: dict[str, dict[str, object]] = {
    "record-partitions-ensure": {"task": PARTITIONS_ENSURE, "schedule": timedelta(hours=6)},
}
