"""What is left of limits, as /api/ tells it."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime

import pytest

from accounts import services
from accounts.contracts import Limits
from accounts.models import LimitCounter
from accounts.scopes import DEFAULT_SCOPES, Scope
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db


def count(scope: str, owner_id: int, **more: object) -> None:
    today = datetime.now(UTC).date()
    slot = int(time.time())
    counts = {
        "window": [slot - 200, 9, 900, slot, 2, 30],
        "num_open": 1,
        "num_reserved_tokens": 10,
        "day_start": today,
        "day_tokens": 100,
        "week_start": date(2001, 1, 1),
        "week_tokens": 5000,
        "month_start": today.replace(day=1),
        "month_tokens": 300,
    }
    LimitCounter.objects.create(scope=scope, owner_id=owner_id, **(counts | more))


def test_use_is_that_of_now_and_not_of_an_older_minute_or_week(manager, program) -> None:
    key = program(limits=Limits(max_tokens_per_minute=200)).row
    count("key", key.pk)

    shown = manager.get(f"/keys/{key.pk}/limits")

    assert shown.status_code == 200 and shown["Cache-Control"] == "no-store"
    assert shown.json()["limits"]["max_tokens_per_minute"] == 200
    assert shown.json()["used"] == {
        "requests_per_minute": 2,
        "tokens_per_minute": 30,
        "parallel_requests": 1,
        "tokens_per_day": 100,
        "tokens_per_week": 0,
        "tokens_per_month": 300,
    }


def test_users_and_teams_have_their_own(manager, bob) -> None:
    team = services.team_create(name="Physics", limits=Limits(max_parallel_requests=3))
    count("user", bob.pk, num_open=5)
    count("team", team.pk, num_open=7)
    shown = [manager.get(f"/{path}/limits").json() for path in (f"users/{bob.pk}", f"teams/{team.pk}")]
    assert [one["used"]["parallel_requests"] for one in shown] == [5, 7]
    assert shown[0]["limits"]["max_parallel_requests"] is None
    assert shown[1]["limits"]["max_parallel_requests"] == 3


def test_where_nothing_was_limited_nothing_is_counted(manager, program) -> None:
    assert manager.get(f"/keys/{program().row.pk}/limits").json()["used"] is None


def test_others_keys_look_like_keys_that_do_not_exist(manager, program, bob) -> None:
    own = program("ann", DEFAULT_SCOPES | {Scope.KEYS_OWN})
    other = program("carl").row
    assert own.get(f"/keys/{own.row.pk}/limits").status_code == 200
    assert error_of(own.get(f"/keys/{other.pk}/limits"))[0] == 404
    assert error_of(own.get(f"/users/{bob.pk}/limits"))[0] == 403
    assert error_of(program("dora").get(f"/keys/{other.pk}/limits"))[0] == 403
    for path in ("keys/99999", "users/99999", "teams/99999"):
        assert error_of(manager.get(f"/{path}/limits"))[0] == 404
