"""manage.py model_add ID SOURCE [settings] [--load] [--wait [S]] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from inference.domain.model_settings import ModelSettings, ModelState
from inference.management.model_arguments import add_model_arguments, settings_from, source_from
from inference.management.models_command import ModelsCommand, add_wait_argument, model_summary
from inference.model_rows.services import model_create, model_rows_changing, model_wants_loaded


class Command(ModelsCommand):
    help = "Add a model. The service that runs takes it up within seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="what clients send as `model`")
        parser.add_argument("source", help="a GGUF file's path, or hf:org/repo/file.gguf")
        add_model_arguments(parser)
        parser.add_argument("--load", action="store_true", help="load it now, whatever its policy")
        add_wait_argument(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        blank = ModelSettings(row_id=0, revision=0, id=options["id"], source=source_from(options["source"]))
        with model_rows_changing():
            row = model_create(
                settings=settings_from(options, before=blank), is_enabled=options["enabled"] is not False
            )
            if options["load"]:
                row = model_wants_loaded(row_id=row.pk, wants_loaded=True)
        if options["wait"] is not None:
            row = self.wait_for(row, ModelState.READY, options["wait"])
        if options["json"]:
            self.print_json(model_summary(row))
            return
        self.stdout.write(f"Model {row.model_id!r} (id {row.pk}) is added.")
