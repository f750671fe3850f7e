"""manage.py webhook_secrets_reencrypt [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from hooks.management.hooks_command import HooksCommand
from hooks.services.secret_renewal import webhook_secrets_reencrypt


class Command(HooksCommand):
    help = (
        "Encrypt secrets of webhooks with the present secret key, which SKIPPY_OLD_SECRET_KEYS still reads."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        done = webhook_secrets_reencrypt()
        if options["json"]:
            self.print_json(asdict(done))
        else:
            for name in done.renewed:
                self.stdout.write(f"{name}: encrypted with the present key.")
            self.stdout.write(f"{len(done.renewed)} encrypted anew, {done.num_current} were already.")
        if done.unreadable:
            names = ", ".join([repr(name) for name in done.unreadable])
            raise CommandError(f"No key that is known opens the secrets of {names}: enter them again.")
