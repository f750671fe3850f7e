"""/api/records and /api/usage: everybody's with usage_all, one's own with usage."""

from __future__ import annotations

import csv
import io
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient
from django.utils import timezone

from accounts.scopes import DEFAULT_SCOPES, Scope
from tests.integration.management.conftest import Program, error_of
from tests.integration.management.test_personal_data import record_of

pytestmark = pytest.mark.django_db

ALL = frozenset({Scope.USAGE_ALL})


def used(caller: Program, num_records: int) -> list[str]:
    """Ids, newest first; two of each instant."""
    now = timezone.now()
    rows = [
        record_of(caller.row.user, caller.row.pk, now - timedelta(seconds=number // 2))
        for number in range(num_records)
    ]
    return [str(row.pk) for row in sorted(rows, key=lambda row: (row.created_at, row.pk), reverse=True)]


class TestRecords:
    def test_pages_have_each_record_once_in_order(self, program) -> None:
        caller = program("bob")
        made, seen, after = used(caller, 7), [], ""
        while True:
            page = caller.get(f"/records?limit=2{after}").json()
            seen += [row["id"] for row in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == made

    def test_a_key_sees_its_own_and_an_overseer_everybodys(self, program) -> None:
        ann, bob, overseer = program("ann"), program("bob"), program("boss", ALL)
        used(ann, 2), used(bob, 3)
        assert {row["key_id"] for row in ann.get("/records").json()["data"]} == {ann.row.pk}
        assert len(overseer.get("/records").json()["data"]) == 5
        assert len(overseer.get(f"/records?user_id={bob.row.user_id}").json()["data"]) == 3
        assert error_of(ann.get(f"/records?key_id={bob.row.pk}"))[0] == 403
        assert error_of(ann.get("/records?key_id=999999"))[0] == 403
        assert error_of(ann.get(f"/records?user_id={ann.row.user_id}"))[0] == 403
        assert ann.get(f"/records?key_id={ann.row.pk}").status_code == 200

    def test_nobody_learns_by_after_whether_a_record_is_there(self, program) -> None:
        ann, bob = program("ann"), program("bob")
        (theirs,) = used(bob, 1)
        refused = [ann.get(f"/records?after={one}") for one in (theirs, uuid.uuid4())]
        assert [error_of(answer) for answer in refused] == [(400, "invalid_value", "after")] * 2
        assert refused[0].content == refused[1].content

    def test_filters(self, program) -> None:
        caller = program()
        used(caller, 4)
        now = timezone.now()
        recent = caller.client.get(
            "/api/records",
            {"start": (now - timedelta(seconds=0.9)).isoformat()},
            headers={"authorization": f"Bearer {caller.key}"},
        )
        assert 1 <= len(recent.json()["data"]) < 4
        assert caller.get("/records?end=2001-01-01T00:00:00Z").json()["data"] == []
        for query, param in (("after=x", "after"), ("start=x", "start"), ("outcome=x", "outcome")):
            assert error_of(caller.get(f"/records?{query}")) == (400, "invalid_value", param)

    def test_few_queries(self, program, django_assert_max_num_queries) -> None:
        caller = program()
        made = used(caller, 60)
        caller.get("/me")
        with django_assert_max_num_queries(3):
            assert len(caller.get(f"/records?limit=200&after={made[0]}").json()["data"]) == 59

    def test_a_session_sees_all_keys_of_its_user(self, program, client) -> None:
        first, second, other = program("ann"), program("ann"), program("bob")
        used(first, 1), used(second, 1), used(other, 1)
        client.force_login(first.row.user)
        assert len(client.get("/api/records").json()["data"]) == 2


class TestUsage:
    def test_errors_are_those_of_v1(self, program) -> None:
        caller = program()
        assert error_of(caller.get("/usage?start=x"))[::2] == (400, "start")
        assert error_of(caller.get("/usage?when=now"))[::2] == (400, "when")
        assert error_of(caller.get("/usage?user_id=x"))[::2] == (400, "user_id")
        assert error_of(caller.get("/usage?user_id=1"))[0] == 403
        assert error_of(program(scopes=frozenset({Scope.INFERENCE})).get("/usage"))[0] == 403

    def test_a_report_of_nothing(self, program) -> None:
        report = program().get("/usage?bucket=day&time_zone=Europe/Berlin")
        assert (report.status_code, report.json()["total_tokens"]) == (200, 0)

    def test_latencies_are_read_where_somebody_asks_for_them(self, program) -> None:
        caller = program()
        assert "latencies" not in caller.get("/usage").json()
        assert set(caller.get("/usage?latencies=true&bucket=day").json()["latencies"]) == {
            "queue_s", "time_to_first_token_s", "time_per_output_token_s", "total_s"
        }  # fmt: skip
        assert error_of(caller.get("/usage?latencies=x"))[::2] == (400, "latencies")


@pytest.mark.django_db(transaction=True)
async def test_csv_streams_everybodys_records(program) -> None:
    ann = await sync_to_async(program)("ann", DEFAULT_SCOPES | ALL)
    bob = await sync_to_async(program)("bob")
    for caller in (ann, bob):
        await sync_to_async(used)(caller, 3)
    headers = {"authorization": f"Bearer {ann.key}"}
    response = await AsyncClient().get("/api/usage?format=csv", headers=headers)
    assert response.streaming
    text = b"".join([piece async for piece in response.streaming_content]).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 6
    assert {row["user"] for row in rows} == {"ann", "bob"}
    assert {row["prompt_tokens"] for row in rows} == {"1"}
    one = await AsyncClient().get(f"/api/usage?format=csv&user_id={bob.row.user_id}", headers=headers)
    assert len((b"".join([piece async for piece in one.streaming_content])).splitlines()) == 4
