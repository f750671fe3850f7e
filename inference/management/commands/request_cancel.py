"""manage.py request_cancel RECORD_ID [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

import msgspec
from django.core.management import CommandError

from accounts.management.accounts_command import AccountsCommand
from inference.ledger.live_desk import live_request_cancel


class Command(AccountsCommand):
    help = "End a request that runs or waits. Its client is told request_cancelled."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("record_id", help="as request_list shows it")
        parser.add_argument("--json", action="store_true", help="print what was cancelled as a JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            record_id = UUID(options["record_id"])
        except ValueError:
            raise CommandError("A record id is a UUID; request_list shows them.") from None
        cancelled = live_request_cancel(record_id=record_id)
        if cancelled.request is None:
            silent = cancelled.num_silent
            unknown = (
                f" {silent} of {cancelled.num_servers} server processes did not answer." if silent else ""
            )
            raise CommandError(f"No server process has said that it has this request.{unknown}")
        if options["json"]:
            self.print_json(msgspec.to_builtins(cancelled.request))
            return
        request = cancelled.request
        self.stdout.write(
            f"Request {request.request_id} of {request.username!r} is cancelled; it was "
            f"{request.phase.value} for {request.phase_s:.1f} s."
        )
