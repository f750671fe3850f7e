"""`manage.py doctor`: say in plain lines what is wrong with this machine."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand

from skippy_site.provision.doctor import report


class Command(BaseCommand):
    help = "Check this machine, the llama.cpp build, the settings and the services; exit 1 on a problem."
    # It must work where nothing else does: no checks, and no database.
    requires_system_checks: ClassVar[list[str]] = []

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(report())
