"""manage.py model_list [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from accounts.management.tables import print_table
from inference.management.models_command import ModelsCommand, model_summary
from inference.model_rows.selectors import model_rows_with_reports
from inference.models import ModelRow

COLUMNS = ("id", "model", "aliases", "source", "loaded", "state")


class Command(ModelsCommand):
    help = "List the models, in the order in which they were added."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = list(model_rows_with_reports())
        if options["json"]:
            self.print_json([model_summary(row) for row in rows])
        elif not rows:
            self.stdout.write("No models.")
        else:
            print_table(self.stdout.write, COLUMNS, [_cells(row) for row in rows])
        self.warn_of_dangling_names()


def _cells(row: ModelRow) -> list[str]:
    """The states of all processes, each with their number."""
    states = Counter(report.state for report in row.fresh_reports)
    name = f"{row.model_id} (default)" if row.is_default else row.model_id
    shown = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    word = {None: row.load_policy, True: "yes", False: "no"}[row.wants_loaded]
    state = shown or "-" if row.is_enabled else "not enabled"
    return [str(row.pk), name, ", ".join(row.aliases) or "-", row.source, word, state]
