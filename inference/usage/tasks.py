"""What a worker does for usage. Each task may be delivered twice, late, or beside itself.

When they are sent is the site's to say (CELERY_BEAT_SCHEDULE).
"""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task
from django.conf import settings

from inference.usage.aggregation import usage_aggregate
from inference.usage.event_store import events_aggregate
from inference.usage.retention import events_expire, records_expire, usage_expire

AGGREGATE = "inference.usage.tasks.aggregate"
EXPIRE = "inference.usage.tasks.expire"


@shared_task(name=AGGREGATE, ignore_result=True)
def aggregate() -> None:
    """Add records and events to their hours."""
    usage_aggregate()
    events_aggregate()


@shared_task(name=EXPIRE, ignore_result=True)
def expire() -> None:
    """Forget what is older than the settings say."""
    kept = settings.ENVIRONMENT
    events_expire(older_than=timedelta(days=kept.telemetry_retention_days))
    if kept.record_retention_days:
        records_expire(older_than=timedelta(days=kept.record_retention_days))
    if kept.usage_retention_days:
        usage_expire(older_than=timedelta(days=kept.usage_retention_days))
