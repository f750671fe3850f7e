"""manage.py maintenance on|off|status [--message TEXT] [--until INSTANT] [--drain-queue] …"""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django.core.management import CommandError
from django.utils.dateparse import parse_datetime

from accounts.management.accounts_command import AccountsCommand, instant
from inference.maintenance.selectors import maintenance_get
from inference.maintenance.services import MaintenancePlan, maintenance_begin, maintenance_end
from inference.models import Maintenance


class Command(AccountsCommand):
    help = "Close the service to new requests for maintenance, open it again, or say how it is."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["on", "off", "status"])
        parser.add_argument("--message", default="", help="what clients and people in the console are told")
        parser.add_argument(
            "--until",
            help="when it is planned to end, such as 2026-11-30T22:00+01:00; nothing opens by itself",
        )
        parser.add_argument(
            "--drain-queue",
            action="store_true",
            help="refuse what waits for a lane as well; what runs goes on",
        )
        parser.add_argument(
            "--let-administrators", action="store_true", help="let the keys of administrators through"
        )
        parser.add_argument(
            "--let-key", type=int, action="append", default=[], metavar="ID", help="let this key through"
        )
        parser.add_argument("--json", action="store_true", help="print how it is as a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["what"]:
            case "on":
                maintenance_begin(
                    plan=MaintenancePlan(
                        message=options["message"],
                        until=_instant(options["until"]),
                        refuses_queued=options["drain_queue"],
                        lets_administrators=options["let_administrators"],
                        let_key_ids=options["let_key"],
                    )
                )
            case "off":
                maintenance_end()
        row = maintenance_get()
        if options["json"]:
            self.print_json(maintenance_summary(row))
        elif not row.is_on:
            self.stdout.write("Open: no maintenance.")
        else:
            until = f", planned until {instant(row.until)}" if row.until else ""
            self.stdout.write(f"Under maintenance since {instant(row.began_at)} by {row.began_by}{until}.")
            self.stdout.write(f"Clients are told: {row.message or '(the usual words)'}")


def maintenance_summary(row: Maintenance) -> dict[str, object]:
    """By the names of /api/maintenance."""
    return {
        "is_on": row.is_on,
        "message": row.message,
        "until": instant(row.until),
        "refuses_queued": row.refuses_queued,
        "lets_administrators": row.lets_administrators,
        "let_key_ids": row.let_key_ids,
        "began_at": instant(row.began_at),
        "began_by": row.began_by,
    }


def _instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise CommandError("--until is an instant such as 2026-11-30T22:00+01:00.")
    return found
