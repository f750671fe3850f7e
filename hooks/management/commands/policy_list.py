"""manage.py policy_list [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.tables import print_table
from hooks.management.hooks_command import HooksCommand, policy_summary
from hooks.models import HookPolicy
from hooks.selectors import policies_missing
from hooks.services.columns import policy_or_fault

COLUMNS = ("id", "order", "mode", "point", "required", "name", "trouble")


class Command(HooksCommand):
    help = "List the policies, in the order of their application."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = list(HookPolicy.objects.order_by("order", "pk"))
        if options["json"]:
            self.print_json([policy_summary(row) for row in rows])
        elif not rows:
            self.stdout.write("No policies.")
        else:
            cells = [_cells(row, missing) for row, missing in policies_missing(rows)]
            print_table(self.stdout.write, COLUMNS, cells)


def _cells(row: HookPolicy, missing: list[str]) -> list[str]:
    required = "yes" if row.is_required else "no"
    trouble = policy_or_fault(row).fault or ", ".join(missing) or "-"
    return [str(row.pk), str(row.order), row.mode, row.point, required, row.name, trouble]
