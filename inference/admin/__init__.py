"""Inference in Django's admin: models and their prices, and what operators were told."""

from inference.admin.alert import AlertAdmin
from inference.admin.model_row import ModelRowAdmin
from inference.admin.price import ModelPriceAdmin

__all__ = ["AlertAdmin", "ModelPriceAdmin", "ModelRowAdmin"]
