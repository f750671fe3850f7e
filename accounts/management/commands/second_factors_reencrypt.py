"""manage.py second_factors_reencrypt"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand
from accounts.sign_in.factor_services import second_factors_reencrypt


class Command(AccountsCommand):
    help = "Encrypt second factors with the present secret key, which SKIPPY_OLD_SECRET_KEYS still reads."

    def handle(self, *args: Any, **options: Any) -> None:
        done = second_factors_reencrypt()
        self.stdout.write(f"{done.num_renewed} encrypted anew, {done.num_current} were already.")
        if done.unreadable:
            names = ", ".join(repr(name) for name in done.unreadable)
            raise CommandError(
                f"No key that is known opens those of {names}: remove them (second_factor_remove)."
            )
