"""manage.py second_factor_remove USER"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.sign_in.factor_services import second_factor_remove


class Command(AccountsCommand):
    help = "Remove a user's second factor with its recovery codes, and end his sessions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user")

    def handle(self, *args: Any, **options: Any) -> None:
        user = user_named(options["user"])
        if second_factor_remove(user=user):
            self.stdout.write(f"{user.get_username()} signs in with the password alone. Sessions have ended.")
        else:
            self.stdout.write(f"{user.get_username()} has no second factor.")
