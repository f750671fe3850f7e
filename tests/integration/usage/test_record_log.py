"""The log of requests: every page once, whatever it is filtered by, and nothing of others."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inference.models import GenerationText, StoredEvent
from inference.usage import record_log
from inference.usage.aggregation import usage_aggregate
from inference.usage.record_log import RecordFilter, record_pages, record_story, records_page
from inference.usage.selectors import UsageOwner
from tests.integration.usage.records import AT, record, save

pytestmark = pytest.mark.django_db(transaction=True)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def wanted(**fields: object) -> RecordFilter:
    return RecordFilter(**{"start_at": AT - 30 * DAY, "end_at": AT + 30 * DAY, **fields})


def listed(filter: RecordFilter, page_size: int = 7) -> list:
    return [row.pk for page in record_pages(filter=filter, page_size=page_size) for row in page]


@pytest.mark.parametrize("counted", ["none", "some", "all"])
def test_pages_have_each_record_once_newest_first(counted) -> None:
    made = [
        record(
            created_at=AT - number * timedelta(minutes=17),
            outcome="backend_error" if number % 11 == 0 else "completed",
            error_code="generation_failed" if number % 22 == 0 else "",
            finish_reason="" if number % 11 == 0 else ("stop", "length")[number % 2],
            model=f"m{number % 3}",
            key_id=number % 4,
            user_id=number % 2,
            team_id=number % 2,
        )
        for number in range(200)
    ]
    made += [record(created_at=AT, outcome="rejected", rejection_reason="queue_full") for _ in range(20)]
    save(*made[:100])
    if counted != "none":
        usage_aggregate()
    save(*made[100:])
    if counted == "all":
        usage_aggregate()
    made.sort(key=lambda one: (one.created_at, one.pk), reverse=True)
    for fields in (
        {},
        {"outcome": "backend_error"},
        {"error_code": "generation_failed"},
        {"reason": "length"},
        {"reason": "queue_full"},
        {"model": "m1", "outcome": "completed"},
        {"owner": UsageOwner(key_id=3)},
        {"owner": UsageOwner(user_id=1), "model": "m2"},
        {"owner": UsageOwner(team_id=0), "outcome": "backend_error"},
        {"model": "there is none"},
        {"start_at": AT - 5 * HOUR, "end_at": AT - HOUR, "outcome": "completed"},
    ):
        filter = wanted(**fields)
        fits = [
            one.pk
            for one in made
            if filter.start_at <= one.created_at < filter.end_at
            and all(getattr(one, name) == value for name, value in filter.owner.columns.items())
            and all(
                (one.rejection_reason or one.finish_reason) == value
                if name == "reason"
                else getattr(one, name) == value
                for name, value in filter.unindexed.items()
            )
        ]
        assert listed(filter) == fits, fields


def test_a_rare_error_is_found_without_reading_what_lies_between(monkeypatch) -> None:
    save(*(record(created_at=AT - number * HOUR) for number in range(300)))
    save(record(created_at=AT - 299 * HOUR, outcome="backend_error"))
    usage_aggregate()
    with CaptureQueriesContext(connection) as captured:
        page = records_page(filter=wanted(outcome="backend_error"), after=None, page_size=50)
    assert [row.outcome for row in page.records] == ["backend_error"]
    assert page.following is None
    assert len(captured) == 2


def test_a_page_that_has_looked_at_enough_ends_and_is_followed(monkeypatch) -> None:
    monkeypatch.setattr(record_log, "MAX_RECORDS_LOOKED_AT", 10)
    for number in range(10):
        save(*(record(created_at=AT - number * HOUR) for _ in range(6)))
        save(record(created_at=AT - number * HOUR, outcome="timed_out"))
    usage_aggregate()
    filter = wanted(outcome="timed_out")
    page = records_page(filter=filter, after=None, page_size=50)
    assert 0 < len(page.records) < 10
    assert page.following is not None
    assert len(listed(filter, 50)) == 10


def test_buckets_from_before_there_were_reasons_hide_nothing() -> None:
    from inference.models import TeamUsageBucket

    save(record(finish_reason="stop"), record(outcome="timed_out", error_code="timeout"))
    usage_aggregate()
    TeamUsageBucket.objects.update(reason="", error_code="")
    assert len(listed(wanted(reason="stop"))) == len(listed(wanted(error_code="timeout"))) == 1


def test_a_story_is_its_owners_and_has_nothing_of_another_request_of_the_same_name() -> None:
    one, other = record(request_id="mine"), record(request_id="shared", user_id=2)
    save(one, other, record(request_id="shared", user_id=3))
    for name in ("mine", "shared"):
        StoredEvent.objects.create(at=AT + HOUR / 60, name=f"of {name}", request_id=name, elapsed_s=0.1)
    StoredEvent.objects.create(at=AT - DAY, name="long ago", request_id="mine", elapsed_s=0.1)
    GenerationText.objects.create(
        record_id=one.pk, created_at=AT, expires_at=AT + DAY, user_id=1, key_id=1, request="q", answer="a"
    )
    story = record_story(record_id=one.pk, owner=UsageOwner(user_id=1))
    assert story is not None
    assert ([event.name for event in story.events], story.text.answer) == (["of mine"], "a")
    assert record_story(record_id=one.pk, owner=UsageOwner(user_id=2)) is None
    assert record_story(record_id=uuid4(), owner=UsageOwner()) is None
    shared = record_story(record_id=other.pk, owner=UsageOwner())
    assert (shared.events, shared.text) == ((), None)
