"""Maintenance in the history of changes."""

from __future__ import annotations

from accounts.audit import AuditedModel, audit
from inference.models import Maintenance


def audit_maintenance() -> None:
    audit(Maintenance, AuditedModel("maintenance", label=str, left_out=frozenset({"began_at", "began_by"})))
