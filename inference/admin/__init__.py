"""Inference in Django's admin: models, and what operators were told."""

from inference.admin.alert import AlertAdmin
from inference.admin.model_row import ModelRowAdmin

__all__ = ["AlertAdmin", "ModelRowAdmin"]
