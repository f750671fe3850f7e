"""Which groups are the roles'."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import Group
from django.db import models


class RoleGroup(models.Model):
    """A group that the code made for a role. A group that merely has the role's name is somebody's own, and
    neither its rights nor its members are ours to decide (`accounts.role_groups`)."""

    role = models.CharField("role", max_length=32, unique=True)
    group = models.OneToOneField(Group, on_delete=models.CASCADE, related_name="role", verbose_name="group")

    class Meta:
        verbose_name = "group of a role"
        verbose_name_plural = "groups of roles"
        ordering: ClassVar = ["role"]

    def __str__(self) -> str:
        return self.role
