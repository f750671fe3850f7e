"""manage.py policy_mode NAME off|observe|enforce [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from hooks.contracts.policies import PolicyMode
from hooks.management.hooks_command import HooksCommand, policy_summary
from hooks.selectors import policy_named
from hooks.services.policies import policy_set_mode


class Command(HooksCommand):
    help = "Switch a policy. Every process that serves goes by it within seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="a policy's name")
        parser.add_argument("mode", choices=[mode.value for mode in PolicyMode])
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        row = policy_named(options["name"])
        row = policy_set_mode(policy_id=row.pk, mode=PolicyMode(options["mode"]))
        if options["json"]:
            self.print_json(policy_summary(row))
        else:
            self.stdout.write(f"Policy {row.name!r}: {row.mode}.")
