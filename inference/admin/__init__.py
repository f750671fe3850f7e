"""Inference in Django's admin: models."""

from inference.admin.model_row import ModelRowAdmin

__all__ = ["ModelRowAdmin"]
