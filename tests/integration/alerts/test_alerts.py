import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone

from accounts import services
from accounts.contracts import BudgetPeriod
from accounts.models import ApiKey, Team
from inference.alerts.book import MAX_ATTEMPTS, alerts_tell, alerts_update
from inference.alerts.signals import (
    AlertKind,
    AlertSignal,
    budget_signals,
    engine_signals,
    error_rate_signals,
    period_start,
)
from inference.alerts.tasks import check
from inference.models import Alert
from inference.usage.aggregation import usage_aggregate
from tests.integration.usage.conftest import empty  # noqa: F401 (a fixture of every test here)
from tests.integration.usage.records import record, save

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SIGNAL = AlertSignal(AlertKind.BUDGET, "key 3, day of 2026-11-29", "key a has used 90 of its 100 tokens.")
DOWN = AlertSignal(AlertKind.ENGINE_DOWN, "", "The server cannot generate: it does not answer.")


@pytest.fixture(autouse=True)
def no_alerts():
    yield
    Alert.objects.all().delete()


def tell_into(told: list[str]):
    return lambda alert: told.append(alert.message)


def test_what_lasts_is_told_once():
    told: list[str] = []
    for minute in range(5):
        alerts_update(signals=[SIGNAL], now=NOW + timedelta(minutes=minute))
        alerts_tell(tell=tell_into(told), now=NOW)

    assert told == [SIGNAL.message]


def test_what_comes_back_is_told_again():
    told: list[str] = []
    for signals in ([SIGNAL], [], [SIGNAL]):
        alerts_update(signals=signals, now=NOW)
        alerts_tell(tell=tell_into(told), now=NOW)

    assert len(told) == 2
    assert Alert.objects.filter(closed_at=None).count() == 1


def test_what_could_not_be_told_is_tried_again_and_not_for_ever(caplog):
    def fail(alert: Alert) -> None:
        raise RuntimeError("https://hook.example/secret")

    alerts_update(signals=[SIGNAL], now=NOW)
    for _ in range(MAX_ATTEMPTS + 3):
        alerts_tell(tell=fail, now=NOW)

    assert Alert.objects.get().num_attempts == MAX_ATTEMPTS
    assert "secret" not in caplog.text


def test_a_server_that_is_started_again_is_not_an_alert():
    told: list[str] = []
    alerts_update(signals=[DOWN], now=NOW)
    alerts_tell(tell=tell_into(told), now=NOW + timedelta(seconds=30))
    alerts_update(signals=[], now=NOW + timedelta(minutes=1))
    alerts_tell(tell=tell_into(told), now=NOW + timedelta(minutes=2))
    assert not told

    alerts_update(signals=[DOWN], now=NOW)
    alerts_tell(tell=tell_into(told), now=NOW + timedelta(minutes=2))
    assert told == [DOWN.message]


def test_workers_at_the_same_time_open_and_tell_one():
    told: list[str] = []

    def work(_: int) -> None:
        try:
            alerts_update(signals=[SIGNAL], now=NOW)
            alerts_tell(tell=tell_into(told), now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(5) as threads:
        list(threads.map(work, range(10)))

    assert told == [SIGNAL.message]
    assert Alert.objects.count() == 1


def test_budgets_of_keys_users_and_teams_are_watched():
    ann = services.user_ensure(username="ann")
    key, _ = services.api_key_create(user=ann, name="laptop")
    ApiKey.objects.filter(pk=key.pk).update(max_tokens_per_day=100, budget_alert_percent=90)
    team = Team.objects.create(name="research", max_tokens_per_month=1000, budget_alert_percent=50)
    mine = {"key_id": key.pk, "user_id": ann.pk, "team_id": team.pk, "created_at": NOW}
    save(record(**mine, num_input_tokens=49, num_output_tokens=40))
    usage_aggregate()
    assert not list(budget_signals(now=NOW))

    save(record(**mine, num_input_tokens=1, num_output_tokens=0))
    save(record(**mine | {"created_at": NOW - timedelta(days=3)}, num_input_tokens=410, num_output_tokens=0))
    usage_aggregate()

    found = list(budget_signals(now=NOW))
    assert [signal.subject for signal in found] == [
        f"key {key.pk}, day of 2026-11-29",
        f"team {team.pk}, month of 2026-11-01",
    ]
    assert found[0].message == "key laptop of ann has used 90 of its 100 tokens of this day."
    assert not list(budget_signals(now=NOW + timedelta(days=40)))


def test_periods_begin_where_the_calendar_says():
    wednesday = datetime(2026, 12, 2, 15, tzinfo=UTC)

    assert period_start(BudgetPeriod.DAY, wednesday) == datetime(2026, 12, 2, tzinfo=UTC)
    assert period_start(BudgetPeriod.WEEK, wednesday) == datetime(2026, 11, 30, tzinfo=UTC)
    assert period_start(BudgetPeriod.MONTH, wednesday) == datetime(2026, 12, 1, tzinfo=UTC)


def test_a_rate_of_errors_needs_requests_and_errors_of_ours():
    def found() -> list[AlertSignal]:
        return list(error_rate_signals(now=NOW, max_error_rate=0.1))

    recently = NOW - timedelta(minutes=5)
    save(*(record(created_at=recently, outcome="backend_error") for _ in range(3)))
    assert not found()
    save(*(record(created_at=recently, outcome="rejected") for _ in range(25)))
    (signal,) = found()
    assert signal.message == "3 of the last ten minutes' 28 requests failed."
    save(*(record(created_at=recently) for _ in range(20)))
    assert not found()
    assert not list(error_rate_signals(now=NOW, max_error_rate=0))


def test_a_server_that_does_not_answer_is_down():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (signal,) = engine_signals(host="127.0.0.1", port=free.getsockname()[1])

    assert "does not answer" in signal.message


def test_the_task_mails_what_it_finds(settings):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.ENVIRONMENT = SimpleNamespace(
            alert_webhook_url="",
            alert_email="ops@example.org",
            alert_addresses=("ops@example.org",),
            email_from="skippy@example.org",
            alert_error_rate=0.1,
            loopback="127.0.0.1",
            port=free.getsockname()[1],
        )
        check()
        Alert.objects.update(opened_at=timezone.now() - timedelta(minutes=5))
        check()
        check()

    assert [message.subject for message in mail.outbox] == ["Skippy: engine_down"]
    assert mail.outbox[0].to == ["ops@example.org"]
    settings.ENVIRONMENT.alert_email = ""
    check()
