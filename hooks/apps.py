"""Django's entry for hooks. Starts nothing: commands and workers load it too."""

from __future__ import annotations

from django.apps import AppConfig


class HooksConfig(AppConfig):
    name = "hooks"
    verbose_name = "Policies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hooks.history import audit_hooks

        audit_hooks()
