"""manage.py api_key_revoke ID_OR_PREFIX [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts import services
from accounts.management.accounts_command import AccountsCommand, api_key_summary
from accounts.selectors import api_key_find


class Command(AccountsCommand):
    help = "End an API key for ever. Every process refuses it within 5 seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", metavar="ID_OR_PREFIX", help="its id, or the start of its visible prefix")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        row = api_key_find(reference=options["key"])
        was_revoked = row.revoked_at is not None
        services.api_key_revoke(key=row)
        if options["json"]:
            self.print_json(api_key_summary(row))
            return
        what = "was revoked already" if was_revoked else "is revoked"
        owner = row.user.get_username()
        self.stdout.write(f"API key {row.name!r} (id {row.pk}, {row.masked}) of {owner!r} {what}.")
