"""manage.py user_erase USERNAME --confirm USERNAME [--staff]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management import CommandError

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.personal_data import pseudonym_of, user_erase


class Command(AccountsCommand):
    help = (
        "Take one user out of everything: keys are revoked, names removed, records go on under a pseudonym."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--confirm", required=True, metavar="USERNAME", help="the name once more")
        parser.add_argument("--staff", action="store_true", help="also if the user may sign in to the admin")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["confirm"] != options["username"]:
            raise CommandError("The two names differ; nothing was erased.")
        user = user_named(options["username"])
        try:
            erased = user_erase(user=user, may_erase_staff=options["staff"])
        except PermissionDenied as refusal:
            raise CommandError(f"{refusal} (--staff erases them all the same.)") from None
        told = ", ".join(f"{name} {number}" for name, number in erased.items())
        self.stdout.write(f"Erased as {pseudonym_of(user.pk)}: {told}.")
