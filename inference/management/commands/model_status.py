"""manage.py model_status [NAME] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from accounts.management.tables import print_table
from inference.management.models_command import ModelsCommand, report_summary
from inference.model_rows.selectors import model_row_named, model_rows_with_reports

COLUMNS = ("model", "process", "state", "running", "memory", "cause")


class Command(ModelsCommand):
    help = "What each process that serves says of each model, or of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help="a model's id, or one of its aliases")
        parser.add_argument("--json", action="store_true", help="print a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = (
            list(model_rows_with_reports()) if options["name"] is None else [model_row_named(options["name"])]
        )
        told = [(row.model_id, report) for row in rows for report in row.fresh_reports]
        if options["json"]:
            self.print_json([{"model_id": name, **report_summary(report)} for name, report in told])
        elif not told:
            self.stdout.write("No process serves.")
        else:
            print_table(
                self.stdout.write,
                COLUMNS,
                [
                    [
                        name,
                        report.process_name,
                        report.state,
                        str(report.num_running),
                        f"{report.memory_bytes / 2**20:.0f} MiB" if report.memory_bytes else "-",
                        report.cause or "-",
                    ]
                    for name, report in told
                ],
            )
