"""Looks each minute whether something is worth an alert, and tells of it."""

from __future__ import annotations

from collections.abc import Callable

from celery import shared_task
from django.conf import settings
from django.core.mail import send_mail
from django.utils import timezone

from inference.alerts.book import alerts_tell, alerts_update
from inference.alerts.signals import budget_signals, engine_signals, error_rate_signals
from inference.alerts.webhook import Webhook
from inference.models import Alert

CHECK = "inference.alerts.tasks.check"


@shared_task(name=CHECK, ignore_result=True)
def check() -> None:
    """Does nothing where nobody is to be told."""
    ways = _ways()
    if not ways:
        return
    given, now = settings.ENVIRONMENT, timezone.now()
    signals = [
        *budget_signals(now=now),
        *error_rate_signals(now=now, max_error_rate=given.alert_error_rate),
        *engine_signals(host=given.loopback, port=given.port),
    ]
    alerts_update(signals=signals, now=now)
    alerts_tell(tell=lambda alert: _tell_all(ways, alert), now=now)


def _ways() -> list[Callable[[Alert], None]]:
    given = settings.ENVIRONMENT
    ways: list[Callable[[Alert], None]] = []
    if given.alert_webhook_url:
        ways.append(
            Webhook(
                given.alert_webhook_url,
                given.alert_webhook_secret,
                allows_private=given.alert_webhook_private,
            ).tell
        )
    if given.alert_email:
        ways.append(_mail)
    return ways


def _tell_all(ways: list[Callable[[Alert], None]], alert: Alert) -> None:
    """Each way is tried; where one fails the alert counts as not told, and is repeated by all of them."""
    failures: list[Exception] = []
    for way in ways:
        try:
            way(alert)
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _mail(alert: Alert) -> None:
    given = settings.ENVIRONMENT
    text = f"{alert.message}\n\nSince {alert.opened_at:%Y-%m-%d %H:%M} UTC."
    send_mail(f"Skippy: {alert.kind}", text, given.email_from or None, list(given.alert_addresses))
