"""`manage.py first_run`: what must be in the database before the first request.

Run by `serve` at each start; safe to run again and by several at once. With --json it prints one
object: {"administrator": {"username", "password", "api_key"}, "models": [{"id", "source"}]} the first
time, and {"administrator": null, …} ever after. The secrets exist in readable form nowhere else.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any, ClassVar

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError

from accounts.services import administrator_create_first
from inference.model_rows.selectors import model_settings_read
from skippy_site.supervisor.discovery import database_problem


class Command(BaseCommand):
    help = "Bring the database up to date and make the first administrator, if there is none."
    requires_system_checks: ClassVar[list[str]] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="apply migrations first")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["migrate"]:
                call_command("migrate", interactive=False, verbosity=0)
            made = administrator_create_first()
        except DatabaseError as error:
            raise CommandError(database_problem(error)) from None
        if options["json"]:
            secrets = made and {
                "username": made.username,
                "password": made.password,
                "api_key": made.api_key.plaintext,
            }
            models = [{"id": one.id, "source": one.source} for one in model_settings_read()]
            self.stdout.write(json.dumps({"administrator": secrets, "models": models}))
        elif made is None:
            self.stdout.write("There is an administrator already; nothing was made.")
        else:
            self.stdout.write(
                f"user {made.username}\npassword {made.password}\nAPI key {made.api_key.plaintext}"
            )
