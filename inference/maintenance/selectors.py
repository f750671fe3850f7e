"""Whether the service is under maintenance, for pages and for the processes that serve."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db.models import Q

from accounts.roles import Role
from inference import models
from inference.domain.maintenance import OPEN, Maintenance
from inference.models.maintenance import ONLY_ID


def maintenance_get() -> models.Maintenance:
    """The row, or one that says that all is open."""
    return models.Maintenance.objects.filter(pk=ONLY_ID).first() or models.Maintenance()


def maintenance_read() -> Maintenance:
    """What holds, with those who are let through by name."""
    row = maintenance_get()
    if not row.is_on:
        return OPEN
    return Maintenance(
        is_on=True,
        message=row.message,
        until=row.until,
        refuses_queued=row.refuses_queued,
        let_user_ids=_administrator_ids() if row.lets_administrators else frozenset(),
        let_key_ids=frozenset(row.let_key_ids),
    )


def _administrator_ids() -> frozenset[int]:
    """Superusers, and who has the administrator's role."""
    users = get_user_model().objects.filter(
        Q(is_superuser=True) | Q(groups__name=Role.ADMINISTRATOR.value), is_active=True
    )
    return frozenset(users.values_list("pk", flat=True))
