"""The page of decisions: who may see it, what it is filtered by, and that its index serves it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inference.usage import decision_log
from inference.usage.decision_log import DecisionFilter, decisions_page, policy_numbers
from inference.usage.selectors import UsageOwner
from tests.integration.usage.records import record, save

PAGE = "/console/decisions/"


def decision(policy_id: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "policy": f"policy-{policy_id}",
        "policy_id": policy_id,
        "point": "before_chat_completion",
        "actions": ["deny"],
        "result": "applied",
        "reason": "",
        "choice": None,
        "elapsed_ms": 2.0,
        **fields,
    }


def decided(minutes: float, *decisions: dict[str, Any], **fields: Any) -> Any:
    at = timezone.now() - timedelta(minutes=minutes)
    return record(created_at=at, hook_decisions=list(decisions), **fields)


def last_day(**named: Any) -> DecisionFilter:
    now = timezone.now()
    return DecisionFilter(now - timedelta(days=1), now, **named)


class TestWhoMaySeeIt:
    def test_a_user_may_not(self, as_ann) -> None:
        save(decided(1, decision()))
        assert as_ann.get(PAGE).status_code == 403

    def test_who_is_not_signed_in_is_asked_to(self, client) -> None:
        assert client.get(PAGE).status_code == 302

    def test_who_may_view_records_may(self, operator) -> None:
        save(decided(1, decision(), username="bob"))
        shown = operator.get(PAGE)
        assert shown.status_code == 200
        assert "policy-1" in shown.content.decode() and "bob" in shown.content.decode()


class TestFilters:
    def test_one_decision_has_to_fit_in_all_and_only_those_that_do_are_shown(self) -> None:
        save(
            decided(1, decision(1), decision(2, result="observed", actions=["tag", "stop"])),
            decided(2, decision(1, result="observed")),
            decided(3),
        )
        page = decisions_page(filter=last_day(policy_id=2, result="observed"), after=None, page_size=9)
        (found,) = page.records
        assert [one["policy_id"] for one in found.decisions] == [2]
        assert not decisions_page(
            filter=last_day(policy_id=2, action="deny"), after=None, page_size=9
        ).records
        assert len(decisions_page(filter=last_day(), after=None, page_size=9).records) == 2
        assert len(decisions_page(filter=last_day(action="stop"), after=None, page_size=9).records) == 1
        assert not decisions_page(filter=last_day(model="other"), after=None, page_size=9).records

    @pytest.mark.parametrize(
        "written",
        ["policy=x", f"policy={9**30}", "policy=-1", "point=%00", "after=7-z", "user=x", "result=no"],
    )
    def test_what_is_no_filter_is_left_out(self, written, operator) -> None:
        save(decided(1, decision()))
        shown = operator.get(f"{PAGE}?{written}")
        assert shown.status_code == 200 and len(shown.context["page"].records) == 1

    def test_the_number_of_queries_does_not_grow_with_the_decisions(self, operator) -> None:
        save(decided(1, decision()))
        with CaptureQueriesContext(
            connection,
        ) as few:
            operator.get(f"{PAGE}?policy=1")
        save(*[decided(2 + place, decision(), decision(2)) for place in range(40)])
        with CaptureQueriesContext(connection) as many:
            operator.get(f"{PAGE}?policy=1")
        assert len(many) == len(few)


class TestPages:
    def test_each_is_shown_once_also_when_a_page_ends_early(self, monkeypatch) -> None:
        monkeypatch.setattr(decision_log, "MAX_LOOKED_AT", 4)
        save(*[decided(place, decision(place % 5)) for place in range(1, 31)])
        for wanted in (0, None):
            seen, after = [], None
            while True:
                page = decisions_page(filter=last_day(policy_id=wanted), after=after, page_size=3)
                seen += [found.record.pk for found in page.records]
                after = page.following
                if after is None:
                    break
            assert len(seen) == len(set(seen)) == (6 if wanted == 0 else 30)

    def test_its_index_is_for_the_condition_that_it_asks_with(self) -> None:
        save(*[decided(place / 100) for place in range(3000)], decided(1, decision()))
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE inference_generationrecord")
            cursor.execute("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%WHERE%hook_decisions%'")
            names = [name for (name,) in cursor.fetchall()]
        plan = decision_log._decided(last_day(), None).explain()
        assert any(name in plan for name in names), plan

    @pytest.mark.parametrize("owner", ["key", "user", "team"])
    def test_who_has_many_requests_and_no_decision_has_an_index(self, owner: str) -> None:
        """Otherwise all of his requests are read, or all decisions about others."""
        quiet = [decided(place / 100, **{f"{owner}_id": 8}) for place in range(2000)]
        save(*quiet, *[decided(place / 100, decision(), **{f"{owner}_id": 9}) for place in range(2000)])
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE inference_generationrecord")
            cursor.execute(
                "SELECT indexname FROM pg_indexes WHERE indexdef LIKE %s",
                [f"%({owner}_id%WHERE%hook_decisions%"],
            )
            names = [name for (name,) in cursor.fetchall()]
        plan = decision_log._decided(last_day(owner=UsageOwner(**{f"{owner}_id": 8})), None).explain()
        assert names and any(name in plan for name in names), plan


class TestNumbers:
    def test_of_a_day(self) -> None:
        save(
            decided(1, decision(1, elapsed_ms=1.0), decision(2)),
            decided(2, decision(1, elapsed_ms=3.0, result="observed")),
            decided(3, decision(1, elapsed_ms=5.0, result="failed_open", actions=[])),
            decided(60 * 25, decision(1)),
        )
        numbers = policy_numbers(policy_id=1, now=timezone.now())
        assert (numbers.num_decisions, numbers.num_matched, numbers.num_denied, numbers.num_failed) == (
            3,
            2,
            1,
            1,
        )
        assert numbers.p50_ms == 3.0 and numbers.p95_ms == pytest.approx(4.8)
        assert not numbers.is_partial

    def test_of_one_that_decided_nothing(self) -> None:
        numbers = policy_numbers(policy_id=7, now=timezone.now())
        assert (numbers.num_decisions, numbers.p50_ms) == (0, None)
