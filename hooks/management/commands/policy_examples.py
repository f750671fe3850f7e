"""manage.py policy_examples [--webhook NAME] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from hooks.management.hooks_command import HooksCommand, policy_summary
from hooks.selectors import webhook_named
from hooks.services.policies import policies_add_examples


class Command(HooksCommand):
    help = "Add the shipped examples that are not there yet, all of them off."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--webhook", metavar="NAME", help="whom those call that call one; else left out")
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        webhook_id = None if options["webhook"] is None else webhook_named(options["webhook"]).pk
        rows = policies_add_examples(webhook_id=webhook_id)
        if options["json"]:
            self.print_json([policy_summary(row) for row in rows])
        elif rows:
            for row in rows:
                self.stdout.write(f"{row.name}: {row.description}")
        else:
            self.stdout.write("They are all there.")
