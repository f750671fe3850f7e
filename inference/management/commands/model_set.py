"""manage.py model_set NAME [settings] [--json]"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from inference.management.model_arguments import add_model_arguments, settings_from, source_from
from inference.management.models_command import ModelsCommand, model_summary
from inference.model_rows.columns import settings_of
from inference.model_rows.selectors import model_row_named
from inference.model_rows.services import model_rows_changing, model_update, model_wants_loaded

_WORDS = {"yes": True, "no": False, "policy": None}


class Command(ModelsCommand):
    help = "Change a model. What is not given stays as it is; what needs it is loaded anew."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="a model's id, or one of its aliases")
        parser.add_argument("--id", help="what clients send as `model` from now on")
        parser.add_argument("--source", help="a GGUF file's path, or hf:org/repo/file.gguf")
        add_model_arguments(parser)
        parser.add_argument("--loaded", choices=list(_WORDS), help="the last word; policy: none is said")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with model_rows_changing():
            row = model_row_named(options["name"])
            settings = settings_from(options, before=settings_of(row))
            if options["id"] is not None:
                settings = replace(settings, id=options["id"])
            if options["source"] is not None:
                settings = replace(settings, source=source_from(options["source"]))
            is_enabled = row.is_enabled if options["enabled"] is None else options["enabled"]
            row = model_update(row_id=row.pk, settings=settings, is_enabled=is_enabled)
            if options["loaded"] is not None:
                row = model_wants_loaded(row_id=row.pk, wants_loaded=_WORDS[options["loaded"]])
        if options["json"]:
            self.print_json(model_summary(row))
        else:
            self.stdout.write(f"Model {row.model_id!r} is at revision {row.revision}.")
        self.warn_of_dangling_names()
