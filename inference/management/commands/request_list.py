"""manage.py request_list [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec

from accounts.management.accounts_command import AccountsCommand
from inference.domain.live_requests import LiveRequestStatus
from inference.ledger.live_desk import live_requests_list


class Command(AccountsCommand):
    help = "What runs or waits now, in all server processes, oldest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        found = live_requests_list()
        if options["json"]:
            self.print_json(
                {
                    "requests": msgspec.to_builtins(found.requests),
                    "num_servers": found.num_servers,
                    "num_silent_servers": found.num_silent,
                }
            )
            return
        for request in found.requests:
            self.stdout.write(_line(request))
        self.stdout.write(f"{len(found.requests)} requests in {found.num_servers} server processes.")
        if found.num_silent:
            self.stdout.write(f"{found.num_silent} of them did not answer in time: there may be more.")


def _line(request: LiveRequestStatus) -> str:
    tokens = f"{request.num_input_tokens} + {request.num_output_tokens} tokens"
    return (
        f"{request.record_id}  {request.phase.value} for {request.phase_s:.1f} s  {request.username} "
        f"({request.key_name})  {request.model}  {request.endpoint}  {tokens}"
    )
