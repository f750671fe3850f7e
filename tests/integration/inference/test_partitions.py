"""Months of the records: there before they are needed, and no row is refused for want of one."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from inference import tasks
from inference.ledger.partitions import Month, partitions_ensure
from inference.models import GenerationRecord

pytestmark = pytest.mark.django_db


def row(created_at: datetime, **changes) -> GenerationRecord:
    values = {
        "id": uuid.uuid4(),
        "created_at": created_at,
        "finished_at": created_at + timedelta(seconds=1),
        "request_id": "r",
        "user_id": 1,
        "key_id": 2,
        "endpoint": "completions",
        "is_stream": False,
        "priority": "normal",
        "was_session_ignored": False,
        "max_tokens": 8,
        "num_input_tokens": 3,
        "num_cached_tokens": 1,
        "num_output_tokens": 5,
        "num_reasoning_tokens": 0,
        "num_injected_tokens": 0,
        "total_s": 1.0,
        "outcome": "completed",
        "status": 200,
    }
    return GenerationRecord(**{**values, **changes})


def partition_of(record: GenerationRecord) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass::text FROM inference_generationrecord WHERE id = %s", [record.id]
        )
        (name,) = cursor.fetchone()
    return name


def test_the_models_say_what_the_tables_are() -> None:
    out = StringIO()
    call_command("makemigrations", "inference", "--check", "--dry-run", stdout=out)
    assert "No changes" in out.getvalue()


def test_every_column_of_the_model_can_be_written_and_read() -> None:
    now = timezone.now()
    row(now, metadata={"a": "b"}, hook_decisions=[{"policy": "p"}], session="ff").save(force_insert=True)

    (found,) = GenerationRecord.objects.all()

    assert (found.metadata, found.hook_decisions, found.session) == ({"a": "b"}, [{"policy": "p"}], "ff")
    assert abs(found.recorded_at - now) < timedelta(minutes=1)


def test_this_month_and_the_next_ones_are_there_after_the_migration() -> None:
    for num_months in (0, 1, 2, 3):
        month = Month.of(timezone.now()).plus(num_months)
        record = row(month.start)
        record.save(force_insert=True)
        assert partition_of(record) == month.partition


def test_a_row_of_no_month_is_kept_and_moves_to_its_month_once_that_is_made() -> None:
    early, late = datetime(2001, 2, 28, 23, 59, tzinfo=UTC), datetime(2051, 12, 31, 23, 59, 59, tzinfo=UTC)
    records = [row(early), row(late)]
    for record in records:
        record.save(force_insert=True)
        assert partition_of(record) == "inference_generationrecord_default"

    made = partitions_ensure(connection=connection)

    assert made == [Month(2001, 2), Month(2051, 12)]
    assert [partition_of(record) for record in records] == [month.partition for month in made]
    assert GenerationRecord.objects.get(id=records[0].id).created_at == early
    assert partitions_ensure(connection=connection) == []


def test_a_record_cannot_be_there_twice() -> None:
    record = row(timezone.now())
    record.save(force_insert=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        record.save(force_insert=True)


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(IntegrityError, match="record_numbers_not_negative"), transaction.atomic():
        row(timezone.now(), num_output_tokens=-1).save(force_insert=True)


def test_the_task_makes_months_and_may_run_twice() -> None:
    tasks.record_partitions_ensure()
    tasks.record_partitions_ensure()


def test_months_follow_each_other_over_the_turn_of_a_year() -> None:
    assert Month(2026, 12).plus(1) == Month(2027, 1)
    assert Month(2026, 1).plus(-1) == Month(2025, 12)
    assert Month(2026, 11).plus(14) == Month(2028, 1)
    assert Month.of(datetime(2026, 12, 31, 23, 30, tzinfo=UTC) + timedelta(hours=1)) == Month(2027, 1)
