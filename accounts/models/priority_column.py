"""The column that says whose requests go first; keys, users and teams have it."""

from __future__ import annotations

from django.db import models

from accounts.contracts import KeyPriority

PRIORITIES: list[tuple[str, str]] = [(priority.value, priority.value) for priority in KeyPriority]


def is_known_priority(table: str) -> models.CheckConstraint:
    """Empty, or one of the classes."""
    condition = models.Q(priority__in=["", *[priority.value for priority in KeyPriority]])
    return models.CheckConstraint(condition=condition, name=f"{table}_priority_is_known")
