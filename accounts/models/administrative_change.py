"""The history of what administrators did."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone

from accounts.actors import Door

MAX_LABEL_LENGTH = 200


class ChangeAction(models.TextChoices):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    EXPORTED = "exported"
    ERASED = "erased"
    CANCELLED = "cancelled"
    REPLAYED = "replayed"
    SIGNED_IN = "signed in"
    USED = "used"


class AdministrativeChange(models.Model):
    """One change of one thing, written in the transaction of the change and never changed again, except
    that names are taken out of it when a user is erased.

    Users, keys and things are plain numbers with their names beside them: the history outlives them. What
    has no number (a request) has its label alone.
    `changes` maps a field to [from, to]; a secret is only said to have changed (`accounts.audit`).
    """

    at = models.DateTimeField("time", default=timezone.now, editable=False)
    door = models.CharField("by way of", max_length=16, choices=[(door.value, door.value) for door in Door])
    actor_user_id = models.BigIntegerField("id of who", null=True)
    actor_name = models.CharField("who", max_length=MAX_LABEL_LENGTH)
    actor_key_id = models.BigIntegerField("id of the key used", null=True)
    request_id = models.CharField("request id", max_length=64, blank=True)
    action = models.CharField("what", max_length=16, choices=ChangeAction.choices)
    subject_kind = models.CharField("kind of thing", max_length=32)
    subject_id = models.BigIntegerField("id of the thing", null=True)
    subject_label = models.CharField("thing", max_length=MAX_LABEL_LENGTH)
    subject_user_id = models.BigIntegerField("id of the user concerned", null=True)
    changes = models.JSONField("changes", default=dict)

    class Meta:
        verbose_name = "change"
        verbose_name_plural = "history of changes"
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["subject_kind", "subject_id", "-id"], name="change_subject"),
            models.Index(fields=["actor_user_id", "-id"], name="change_actor"),
            models.Index(fields=["subject_user_id", "-id"], name="change_subject_user"),
        ]

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_label} {self.action}"
