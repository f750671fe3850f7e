from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from inference.ledger.partitions import partitions_ensure
from inference.models import (
    EventBucket,
    GenerationRecord,
    StoredEvent,
    TeamUsageBucket,
    UsageBucket,
    UsageDay,
    UsagePending,
)
from inference.usage.aggregation import usage_aggregate
from inference.usage.retention import events_expire, records_expire, usage_expire
from inference.usage.tasks import aggregate, expire
from tests.integration.usage.records import AT, record, save

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def event(age: timedelta) -> StoredEvent:
    return StoredEvent(at=timezone.now() - age, name="stage.x", elapsed_s=0.1)


def test_old_events_go_in_batches_and_young_ones_stay():
    StoredEvent.objects.bulk_create([event(20 * DAY)] * 23 + [event(10 * DAY)] * 4)

    assert events_expire(older_than=14 * DAY, batch_size=5) == 23
    assert StoredEvent.objects.count() == 4


def test_old_usage_goes_and_young_usage_stays():
    save(record(created_at=timezone.now() - 400 * DAY), record(created_at=timezone.now()))
    usage_aggregate()
    EventBucket.objects.create(hour=timezone.now() - 400 * DAY, name="x", num_events=1, elapsed_counts=[])

    # The hour of the key, the team and everybody (with latencies of both), their days, and the key's month.
    assert usage_expire(older_than=365 * DAY) == 12
    assert UsageDay.objects.count() == TeamUsageBucket.objects.count() == 1
    assert UsageBucket.objects.count() == 1


def test_months_of_records_go_as_a_whole_once_they_are_counted():
    old = timezone.now() - 100 * DAY
    partitions_ensure(connection=connection, now=old, num_months_ahead=0)
    save(record(created_at=old), record(created_at=timezone.now()))

    dropped = records_expire(older_than=60 * DAY)

    assert f"inference_generationrecord_{old:%Y_%m}" in dropped
    assert GenerationRecord.objects.count() == 1
    assert sum(UsageBucket.objects.values_list("num_requests", flat=True)) == 2
    assert not UsagePending.objects.exists()
    partitions_ensure(connection=connection)


def test_the_tasks_do_it_all_and_may_come_twice():
    save(record(created_at=timezone.now()))
    StoredEvent.objects.bulk_create([event(20 * DAY), event(DAY)])

    for _ in range(2):
        aggregate()
        expire()

    assert UsageBucket.objects.get().num_requests == 1
    assert StoredEvent.objects.count() == 1
    assert sum(EventBucket.objects.values_list("num_events", flat=True)) == 2


def test_every_scheduled_task_is_one_that_workers_know(settings):
    from skippy_site.celery import app

    app.loader.import_default_modules()

    assert {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()} <= set(app.tasks)


def test_the_command_counts_again(capsys):
    save(record(), record())
    usage_aggregate()
    UsageBucket.objects.update(num_requests=1)

    call_command("usage_rebuild", "--from", "2026-11-29", "--to", "2026-11-30T00:00:00+00:00")

    assert "counted 2 records" in capsys.readouterr().out
    assert UsageBucket.objects.get().num_requests == 2
    GenerationRecord.objects.all().delete()
    call_command("usage_rebuild", "--from", "2026-11-29", "--to", "2026-11-30")
    assert "left 1 hours as they were" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--from", "soon"], ["--from", "2026-11-29", "--to", "2026-11-28"]])
def test_the_command_says_what_is_wrong_with_its_times(options):
    with pytest.raises(CommandError):
        call_command("usage_rebuild", *options)


def test_an_hour_in_utc_is_what_a_bucket_is_named_after():
    save(record(created_at=AT.astimezone(UTC)))
    usage_aggregate()

    assert UsageBucket.objects.get().hour == datetime(2026, 11, 29, 10, tzinfo=UTC)
