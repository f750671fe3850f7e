"""manage.py api_key_list [--user NAME] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.accounts_command import AccountsCommand, api_key_summary
from accounts.selectors import api_keys_for_listing

COLUMNS = ("id", "prefix", "last4", "user", "name", "state", "created_at", "expires_at", "last_used_at")


class Command(AccountsCommand):
    help = "List API keys, newest first, without anything that opens anything."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", help="only the keys of this user")
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        summaries = [api_key_summary(row) for row in api_keys_for_listing(username=options["user"])]
        if options["json"]:
            self.print_json(summaries)
            return
        if not summaries:
            self.stdout.write("No API keys.")
            return
        rows = [
            list(COLUMNS),
            *([_cell(column, summary[column]) for column in COLUMNS] for summary in summaries),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            self.stdout.write("  ".join(cells).rstrip())


def _cell(column: str, value: object) -> str:
    """Instants to the minute; a dash for what is not there."""
    if value is None:
        return "-"
    return str(value)[:16].replace("T", " ") if column.endswith("_at") else str(value)
