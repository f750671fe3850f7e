"""manage.py model_load NAME [--wait [S]] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from inference.domain.model_settings import ModelState
from inference.management.models_command import ModelsCommand, add_wait_argument, model_summary
from inference.model_rows.selectors import model_row_named
from inference.model_rows.services import model_wants_loaded


class Command(ModelsCommand):
    help = "Load a model, whatever its policy; where that failed, try again. May be repeated."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="a model's id, or one of its aliases")
        add_wait_argument(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        row = model_wants_loaded(row_id=model_row_named(options["name"]).pk, wants_loaded=True)
        if options["wait"] is not None:
            row = self.wait_for(row, ModelState.READY, options["wait"])
        if options["json"]:
            self.print_json(model_summary(row))
            return
        done = "is loaded" if options["wait"] is not None else "is to be loaded"
        self.stdout.write(f"Model {row.model_id!r} {done}.")
