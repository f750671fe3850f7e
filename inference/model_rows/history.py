"""Models and their prices in the history of changes."""

from __future__ import annotations

from accounts.audit import AuditedModel, audit, audit_relation
from inference.models import ModelAdapter, ModelPrice, ModelRow


def audit_model_rows() -> None:
    """Listen to the rows of models, of their adapters and of their prices."""
    own = frozenset({"revision", "created_at", "updated_at"})
    audit(ModelRow, AuditedModel("model", label=str, left_out=own))
    audit(
        ModelAdapter,
        AuditedModel(
            "model_adapter", label=lambda adapter: f"{adapter.row}: {adapter}", left_out=frozenset({"row"})
        ),
    )
    audit(ModelPrice, AuditedModel("model_price", label=str, left_out=frozenset()))
    audit_relation(ModelRow.teams.through, field="teams")
    audit_relation(ModelRow.keys.through, field="keys")
