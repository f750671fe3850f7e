from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.usage import UsageRange, UsageTotals
from inference.models import (
    GenerationRecord,
    SpanLatency,
    SpanUsage,
    TeamLatencyBucket,
    TeamUsageBucket,
    UsageBucket,
    UsageDay,
    UsageMonth,
    UsagePending,
)
from inference.usage.aggregation import usage_aggregate
from inference.usage.rebuild import usage_rebuild
from inference.usage.selectors import UsageOwner, usage_latencies, usage_report
from tests.integration.usage.records import AT, record, save

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def counted() -> int:
    return sum(UsageBucket.objects.values_list("num_requests", flat=True))


def whole() -> UsageTotals:
    return usage_report(owner=UsageOwner(), range=UsageRange()).totals


def test_a_record_is_counted_with_its_commit_and_once_for_ever():
    save(record())
    assert (whole().num_requests, counted()) == (1, 0)

    assert usage_aggregate() == 1

    assert (whole().num_requests, counted()) == (1, 1)
    assert not UsagePending.objects.exists()
    assert usage_aggregate() == 0
    assert whole() == UsageTotals(1, 10, 4, 5, 2, 1)


def test_what_differs_in_anything_that_is_asked_for_has_a_bucket_of_its_own():
    save(
        record(),
        record(key_id=2),
        record(user_id=2),
        record(team_id=7),
        record(team_id=None),
        record(model="large"),
        record(endpoint="completions"),
        record(outcome="rejected"),
        record(created_at=AT + HOUR),
        record(finish_reason="stop"),
        record(outcome="rejected", rejection_reason="queue_full", error_code="server_overloaded"),
        record(outcome="rejected", error_code="permission_denied"),
    )

    usage_aggregate()

    assert UsageBucket.objects.count() == 11
    assert counted() == 12
    reasons = UsageBucket.objects.exclude(reason="", error_code="").values_list("reason", "error_code")
    assert set(reasons) == {("stop", ""), ("queue_full", "server_overloaded"), ("", "permission_denied")}


def spans_now() -> dict[tuple[int, bool], int]:
    found: Counter[tuple[int, bool]] = Counter()
    for num_hours, is_of_all, num_requests in SpanUsage.objects.values_list(
        "num_hours", "is_of_all", "num_requests"
    ):
        found[num_hours, is_of_all] += num_requests
    return dict(found)


def sums(model: type[UsageBucket | TeamUsageBucket | UsageDay | UsageMonth]) -> list[int]:
    names = ("num_requests", "num_input_tokens", "num_cached_tokens", "num_output_tokens")
    return [sum(model.objects.values_list(name, flat=True)) for name in names]


def test_hours_of_teams_and_days_of_keys_add_up_to_the_same():
    def some(times: int) -> list[GenerationRecord]:
        return [
            record(key_id=number % 7, team_id=number % 3 or None, created_at=AT + number * HOUR)
            for number in range(50 * times)
        ]

    save(*some(1))
    usage_aggregate()
    save(*some(2))
    usage_aggregate()

    assert sums(TeamUsageBucket) == sums(UsageDay) == sums(UsageBucket) == [150, 1500, 600, 750]
    assert UsageDay.objects.count() < UsageBucket.objects.count()
    counts = [sum(bucket.total_counts) for bucket in TeamLatencyBucket.objects.all()]
    assert sum(counts) == 150
    spans = spans_now()
    assert spans == {(1, True): 50 * 3, (24, True): 50 * 3, (24, False): 50 * 3}
    latencies = SpanLatency.objects.values_list(
        "num_hours", "is_of_all", "starts_at", "team_id", "total_counts"
    )
    times = sorted(latencies, key=str)
    assert sum(sum(one[-1]) for one in times) == 3 * 150
    (month,) = UsageMonth.objects.values_list("month").distinct().order_by("month")[:1]
    days = set(UsageDay.objects.values_list("day", "key_id", "team_id", "num_requests"))
    usage_rebuild(start_at=AT + 5 * HOUR, end_at=AT + 40 * HOUR)
    assert sums(TeamUsageBucket) == sums(UsageDay) == sums(UsageBucket) == [150, 1500, 600, 750]
    assert set(UsageDay.objects.values_list("day", "key_id", "team_id", "num_requests")) == days
    assert spans_now() == spans
    assert sorted(latencies.all(), key=str) == times
    assert sums(UsageMonth) == sums(UsageBucket)
    assert UsageMonth.objects.order_by("month").values_list("month").first() == month


def test_a_day_whose_records_are_partly_gone_keeps_what_its_hours_have():
    save(*(record(created_at=AT + number * HOUR, outcome="backend_error") for number in range(4)))
    usage_aggregate()
    GenerationRecord.objects.filter(created_at=AT).delete()

    assert len(usage_rebuild(start_at=AT, end_at=AT + 3 * HOUR).kept_hours) == 1

    assert UsageDay.objects.values_list("num_requests", "num_unfinished").get() == (4, 4)
    assert sums(TeamUsageBucket) == sums(UsageDay)


def test_late_records_are_added_to_the_hour_that_they_belong_to():
    save(record(), record(created_at=AT + HOUR))
    usage_aggregate()

    save(record(num_output_tokens=100), record(created_at=AT - 400 * 24 * HOUR))
    usage_aggregate()

    bucket = UsageBucket.objects.get(hour=datetime(2026, 11, 29, 10, tzinfo=UTC))
    assert (bucket.num_requests, bucket.num_output_tokens) == (2, 105)
    assert counted() == 4


def test_latencies_of_a_bucket_are_those_of_its_records():
    firsts = [0.0001, 0.1, 0.1, 3.0, 5000.0]
    save(*(record(first_token_s=seconds) for seconds in firsts[:3]))
    usage_aggregate()
    save(*(record(first_token_s=seconds) for seconds in firsts[3:]), record(first_token_s=None, queue_s=None))
    usage_aggregate()

    bucket = UsageBucket.objects.get()
    assert tuple(bucket.first_token_counts) == LatencyHistogram.of(firsts).counts
    assert sum(bucket.queue_counts) == 5
    assert sum(bucket.total_counts) == 6
    report = usage_latencies(owner=UsageOwner(key_id=1), range=UsageRange())
    assert report.first_token == LatencyHistogram.of(firsts)


def test_parallel_and_repeated_deliveries_count_once():
    save(*(record(key_id=number % 5) for number in range(500)))

    def deliver(_: int) -> int:
        try:
            return usage_aggregate(max_records=20)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as threads:
        taken = list(threads.map(deliver, range(12)))

    assert sum(taken) + usage_aggregate() == 500
    assert counted() == 500
    assert whole().num_requests == 500


def test_an_aggregation_that_is_killed_has_not_happened():
    save(record())

    class Killed(Exception):
        pass

    with pytest.raises(Killed), transaction.atomic():
        usage_aggregate()
        raise Killed

    assert counted() == 0
    assert usage_aggregate() == 1
    assert counted() == 1


def test_a_record_whose_transaction_is_older_but_commits_later_is_not_lost():
    """Sequences and instants are given before a commit; only what is committed can be claimed."""
    with ThreadPoolExecutor(1) as other:

        def write_and_count() -> None:
            save(record(key_id=2))
            usage_aggregate()
            connection.close()

        with transaction.atomic():
            save(record(key_id=1))
            other.submit(write_and_count).result()

    assert counted() == 1
    usage_aggregate()
    assert counted() == 2


def test_a_record_that_is_rolled_back_leaves_nothing_to_count():
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        save(record())
        raise ZeroDivisionError

    assert not UsagePending.objects.exists()


def test_records_that_are_erased_before_they_are_counted_hold_nobody_up():
    save(record(key_id=1), record(key_id=2))
    GenerationRecord.objects.filter(key_id=1).delete()

    usage_aggregate()

    assert counted() == 1
    assert not UsagePending.objects.exists()


def test_a_rebuild_makes_the_same_buckets_again():
    save(*(record(created_at=AT + number * HOUR / 3) for number in range(9)))
    usage_aggregate()
    before = list(UsageBucket.objects.order_by("hour").values_list("hour", "num_requests", "total_counts"))
    UsageBucket.objects.update(num_output_tokens=0)
    save(record())

    rebuilt = usage_rebuild(start_at=AT - HOUR, end_at=AT + 5 * HOUR)

    assert (rebuilt.num_records, rebuilt.kept_hours) == (10, ())
    assert not UsagePending.objects.exists()
    after = list(UsageBucket.objects.order_by("hour").values_list("hour", "num_requests"))
    assert after == [(hour, count + (hour.hour == 10)) for hour, count, _ in before]
    assert whole().num_output_tokens == 50


def test_a_rebuild_leaves_hours_alone_of_which_records_are_gone():
    save(record(), record(), record(created_at=AT + HOUR))
    usage_aggregate()
    GenerationRecord.objects.filter(created_at=AT)[0].delete()

    rebuilt = usage_rebuild(start_at=AT, end_at=AT + 2 * HOUR)

    assert rebuilt.kept_hours == (datetime(2026, 11, 29, 10, tzinfo=UTC),)
    assert counted() == 3


def test_a_report_reads_one_consistent_instant():
    """Each record is in a bucket or pending, never both, while others write and aggregate."""
    save(*(record() for _ in range(50)))

    def write_and_aggregate() -> None:
        try:
            for _ in range(15):
                save(record())
                usage_aggregate(max_records=7)
        finally:
            connection.close()

    seen: list[int] = []
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(write_and_aggregate)
        while not working.done():
            seen.append(whole().num_requests)
        working.result()

    assert seen == sorted(seen)
    assert min(seen) >= 50
    assert whole().num_requests == 65
