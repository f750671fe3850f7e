"""manage.py model_remove NAME [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from inference.management.models_command import ModelsCommand
from inference.model_rows.selectors import model_row_named
from inference.model_rows.services import model_delete, model_rows_changing


class Command(ModelsCommand):
    help = "Remove a model for ever. What runs may end; its file stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="a model's id, or one of its aliases")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with model_rows_changing():
            row = model_row_named(options["name"])
            row_id, model_id = row.pk, row.model_id
            model_delete(row_id=row_id)
        if options["json"]:
            self.print_json({"id": row_id, "model_id": model_id})
        else:
            self.stdout.write(f"Model {model_id!r} is removed.")
        self.warn_of_dangling_names()
