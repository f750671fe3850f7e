"""`manage.py restore`, which manage.py runs without Django; here for its list of commands."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any, ClassVar

from django.core.management.base import BaseCommand

from skippy_site.backup.commands import add_restore_arguments, run


class Command(BaseCommand):
    help = "Make an unused state folder what a backup was made of."
    requires_system_checks: ClassVar[list[str]] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_restore_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(run(sys.argv[1:]))
