"""manage.py user_export USERNAME > file.json"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.accounts_command import AccountsCommand, user_named
from accounts.personal_data import user_export


class Command(AccountsCommand):
    help = "Write all that is kept of one user to standard output, as one JSON object."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        for piece in user_export(user=user_named(options["username"])):
            self.stdout.write(piece.decode(), ending="")
