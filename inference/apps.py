"""Django's entry for inference. Starts nothing: commands and workers load it too."""

from __future__ import annotations

from django.apps import AppConfig


class InferenceConfig(AppConfig):
    name = "inference"
    verbose_name = "Inference"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.maintenance.history import audit_maintenance
        from inference.model_rows.history import audit_model_rows

        audit_model_rows()
        audit_maintenance()
