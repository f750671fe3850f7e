"""manage.py sign_in_clear [USER] [--address ADDRESS]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.sign_in.attempts import attempts_forget_address, attempts_forget_user


class Command(AccountsCommand):
    help = "Let a user, or people at an address, try to sign in again at once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", nargs="?")
        parser.add_argument("--address", help="an IP address; of IPv6 its /64 counts")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["user"] and not options["address"]:
            raise CommandError("Name a user, an address (--address), or both.")
        num_rows = 0
        if options["user"]:
            num_rows += attempts_forget_user(user_named(options["user"]).pk)
        if options["address"]:
            try:
                num_rows += attempts_forget_address(options["address"])
            except ValueError:
                raise CommandError(f"{options['address']!r} is no address.") from None
        self.stdout.write("Cleared." if num_rows else "Nothing was counted against them.")
