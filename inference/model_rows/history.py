"""Models in the history of changes."""

from __future__ import annotations

from accounts.audit import AuditedModel, audit, audit_relation
from inference.models import ModelAdapter, ModelRow


def audit_model_rows() -> None:
    """Listen to the rows of models and of their adapters."""
    own = frozenset({"revision", "created_at", "updated_at"})
    audit(ModelRow, AuditedModel("model", label=str, left_out=own))
    audit(
        ModelAdapter,
        AuditedModel(
            "model_adapter", label=lambda adapter: f"{adapter.row}: {adapter}", left_out=frozenset({"row"})
        ),
    )
    audit_relation(ModelRow.teams.through, field="teams")
    audit_relation(ModelRow.keys.through, field="keys")
