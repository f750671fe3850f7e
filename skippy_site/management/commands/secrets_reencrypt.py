"""manage.py secrets_reencrypt [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from accounts.management.accounts_command import AccountsCommand
from accounts.sign_in.factor_renewal import factor_secrets_reencrypt
from hooks.services.secret_renewal import webhook_secrets_reencrypt

KINDS = {"webhook": webhook_secrets_reencrypt, "second factor": factor_secrets_reencrypt}


class Command(AccountsCommand):
    help = "Encrypt all secrets with the present secret key, those that SKIPPY_OLD_SECRET_KEYS still reads."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        done = {kind: renew() for kind, renew in KINDS.items()}
        if options["json"]:
            self.print_json({kind: asdict(one) for kind, one in done.items()})
        else:
            for kind, one in done.items():
                for name in one.renewed:
                    self.stdout.write(f"{kind} of {name}: encrypted with the present key.")
            num_renewed = sum(len(one.renewed) for one in done.values())
            num_current = sum(one.num_current for one in done.values())
            self.stdout.write(f"{num_renewed} encrypted anew, {num_current} were already.")
        lost = [f"{kind} of {name!r}" for kind, one in done.items() for name in one.unreadable]
        if lost:
            raise CommandError(
                f"No key that is known opens {', '.join(lost)}: enter the secrets of webhooks again, and "
                "remove second factors (manage.py second_factor_remove), so that they can be set up again."
            )
