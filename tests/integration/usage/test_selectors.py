from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from inference.domain.latency_histogram import LatencyHistogram
from inference.domain.usage import BucketWidth, UsageRange, UsageTotals
from inference.models import GenerationRecord
from inference.usage.aggregation import usage_aggregate
from inference.usage.selectors import UsageOwner, records_paged, usage_latencies, usage_report
from tests.integration.usage.records import AT, record, save

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")


def report(owner: UsageOwner | None = None, **range):
    return usage_report(owner=owner or UsageOwner(), range=UsageRange(**range))


def test_owners_see_their_own_aggregated_or_not():
    mine = [record(key_id=1, user_id=1, team_id=5), record(key_id=2, user_id=1, team_id=5)]
    save(*mine, record(key_id=3, user_id=2, team_id=None))

    def counts():
        return [
            report(owner).totals.num_requests
            for owner in (
                UsageOwner(key_id=1), UsageOwner(user_id=1), UsageOwner(team_id=5), UsageOwner(user_id=2),
                UsageOwner(key_id=1, user_id=2), UsageOwner(),
            )
        ]  # fmt: skip

    before = counts()
    usage_aggregate()
    assert before == counts() == [1, 2, 2, 1, 0, 3]


def test_outcomes_add_up_to_the_whole():
    save(record(), record(outcome="rejected", num_input_tokens=0, num_output_tokens=0), record())
    usage_aggregate()
    save(record(outcome="rejected", num_output_tokens=0))

    found = report()

    assert dict(found.by_outcome)["completed"].num_requests == 2
    assert sum((totals for _, totals in found.by_outcome), UsageTotals()) == found.totals


@pytest.mark.parametrize("is_aggregated", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_days_and_months_add_up_where_clocks_change(zone, is_aggregated):
    start = datetime(2026, 3, 28, 0, 30, tzinfo=UTC)
    save(*(record(created_at=start + number * HOUR / 2) for number in range(200)))
    if is_aggregated:
        usage_aggregate()

    for width in (BucketWidth.DAY, BucketWidth.MONTH):
        found = report(width=width, zone=ZoneInfo(zone))
        assert sum((bucket.totals for bucket in found.buckets), UsageTotals()) == found.totals
        assert found.totals.num_requests == 200
        assert [bucket.start_at for bucket in found.buckets] == sorted(
            bucket.start_at for bucket in found.buckets
        )


def test_the_day_on_which_clocks_go_forward_has_23_hours_of_usage():
    start = datetime(2026, 3, 27, 12, tzinfo=UTC)
    save(*(record(created_at=start + number * HOUR) for number in range(96)))
    usage_aggregate()

    days = {
        bucket.start_at.date().isoformat(): bucket.totals.num_requests
        for bucket in report(width=BucketWidth.DAY, zone=BERLIN).buckets
    }

    assert days["2026-03-28"] == 24
    assert days["2026-03-29"] == 23


def test_the_end_of_a_range_does_not_belong_to_it():
    save(*(record(created_at=AT.replace(minute=0) + number * HOUR) for number in range(5)))
    usage_aggregate()

    found = report(start_at=AT.replace(minute=0) + HOUR, end_at=AT.replace(minute=0) + 3 * HOUR)

    assert found.totals.num_requests == 2


def test_latencies_of_many_buckets_are_added():
    seconds = [0.002, 0.2, 20.0]
    save(*(record(created_at=AT + n * HOUR, total_s=one) for n, one in enumerate(seconds)))
    usage_aggregate()

    assert usage_latencies(owner=UsageOwner(), range=UsageRange()).total == LatencyHistogram.of(seconds)
    assert usage_latencies(owner=UsageOwner(key_id=99), range=UsageRange()).total == LatencyHistogram()


def test_pages_have_every_record_once_in_order_also_those_of_one_instant():
    save(*(record(num_output_tokens=number) for number in range(57)))
    save(*(record(created_at=AT + n * HOUR, num_output_tokens=100 + n) for n in range(1, 20)))
    save(record(key_id=2))

    pages = list(
        records_paged(
            owner=UsageOwner(key_id=1), range=UsageRange(), columns=["num_output_tokens"], page_size=10
        )
    )

    values = [value for page in pages for (value,) in page]
    assert sorted(values) == [*range(57), *range(101, 120)]
    assert values[57:] == list(range(101, 120))
    assert [len(page) for page in pages] == [10] * 7 + [6]


def test_pages_keep_to_the_range():
    save(*(record(created_at=AT + number * HOUR) for number in range(6)))

    span = UsageRange(start_at=AT + HOUR, end_at=AT + 3 * HOUR)
    pages = records_paged(owner=UsageOwner(), range=span, columns=["created_at"])

    assert [at.hour for page in pages for (at,) in page] == [11, 12, 13]


def test_no_report_and_no_page_reads_all_records():
    """What is planned for a table of some size, statistics included; other months are empty."""
    save(*(record(key_id=n % 50, created_at=AT + (n % 96) * HOUR / 4) for n in range(5_000)))
    usage_aggregate()
    save(record(key_id=3))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")

    plans: list[str] = []

    def explain(execute, sql, params, many, context):
        if sql.lstrip().startswith(("SELECT", "WITH")):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN {sql}", params)
                plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return execute(sql, params, many, context)

    class Once:
        """Not for the explanations themselves."""

        is_busy = False

        def __call__(self, execute, sql, params, many, context):
            if self.is_busy:
                return execute(sql, params, many, context)
            self.is_busy = True
            try:
                return explain(execute, sql, params, many, context)
            finally:
                self.is_busy = False

    owner, span = UsageOwner(key_id=3), UsageRange(width=BucketWidth.DAY)
    with connection.execute_wrapper(Once()):
        usage_report(owner=owner, range=span)
        usage_latencies(owner=owner, range=span)
        for _ in records_paged(owner=owner, range=span, columns=["id"], page_size=100):
            pass

    assert len(plans) == 2 + 2
    assert GenerationRecord.objects.count() == 5_001
    for plan in plans:
        assert "Seq Scan on inference_generationrecord_2026_11" not in plan, plan
