"""Django's entry for inference. Starts nothing: commands and workers load it too."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class InferenceConfig(AppConfig):
    name = "inference"
    verbose_name = "Inference"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from inference.dashboards.live.session_check import sessions_are_rows
        from inference.maintenance.history import audit_maintenance
        from inference.model_rows.history import audit_model_rows

        checks.register(sessions_are_rows)
        audit_model_rows()
        audit_maintenance()
