"""Keeps what is open, so that each thing is told once while it lasts.

A signal without an open alert opens one; an open alert without a signal is closed. The database
allows one open alert of a kind and subject, so that two workers at the same time open one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from inference.alerts.signals import AlertKind, AlertSignal
from inference.models import Alert

_log = logging.getLogger(__name__)

MAX_ATTEMPTS = 10
RESTART_PATIENCE = timedelta(seconds=90)
"""A server that is started again is away for a moment; that is told only when it lasts."""

Tell = Callable[[Alert], None]


def alerts_update(*, signals: Collection[AlertSignal], now: datetime) -> None:
    """Open what is new, close what is over. `signals` are all that hold now."""
    wanted = {(signal.kind.value, signal.subject[:200]): signal for signal in signals}
    with transaction.atomic():
        opened = set(Alert.objects.filter(closed_at=None).values_list("kind", "subject"))
        Alert.objects.bulk_create(
            [
                Alert(kind=kind, subject=subject, message=signal.message, opened_at=now)
                for (kind, subject), signal in wanted.items()
                if (kind, subject) not in opened
            ],
            ignore_conflicts=True,
        )
        for kind, subject in opened - wanted.keys():
            Alert.objects.filter(kind=kind, subject=subject, closed_at=None).update(closed_at=now)


def alerts_tell(*, tell: Tell, now: datetime) -> int:
    """Tell of each open alert that was not told yet; how many were. One that cannot be told (`tell`
    raises) is tried again the next time, ten times at most. Two workers do not tell the same one."""
    num_told = 0
    due = Alert.objects.filter(closed_at=None, notified_at=None, num_attempts__lt=MAX_ATTEMPTS).filter(
        ~Q(kind=AlertKind.ENGINE_DOWN.value) | Q(opened_at__lte=now - RESTART_PATIENCE)
    )
    for alert_id in list(due.order_by("id").values_list("id", flat=True)):
        with transaction.atomic():
            alert = due.select_for_update(skip_locked=True).filter(id=alert_id).first()
            if alert is None:
                continue
            attempted = Alert.objects.filter(id=alert_id)
            try:
                tell(alert)
            except Exception as error:
                # The class only: what a mail server or a webhook says may hold what it was given.
                _log.warning("an alert could not be told: %s", type(error).__name__)
                attempted.update(num_attempts=F("num_attempts") + 1)
            else:
                attempted.update(num_attempts=F("num_attempts") + 1, notified_at=now)
                num_told += 1
    return num_told
