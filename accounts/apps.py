"""Django's entry for accounts. Starts nothing: commands and workers load it too."""

from __future__ import annotations

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth import get_user_model
        from django.db.models.signals import post_migrate, post_save

        from accounts.audit import audit_accounts
        from accounts.password_links import user_saved
        from accounts.role_groups import role_groups_ensure
        from accounts.sign_in.events import listen

        audit_accounts()
        listen()
        post_migrate.connect(role_groups_ensure, dispatch_uid="role-groups")
        post_save.connect(user_saved, sender=get_user_model(), dispatch_uid="password-links")
