"""`manage.py serve`: run the whole service on this machine until it is asked to stop."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand

from skippy_site.supervisor.serve import serve


class Command(BaseCommand):
    help = "Start every service (Postgres, Valkey, the API server, worker, beat) and keep them running."
    # Works before there is a database, and must not wait for checks that look for one.
    requires_system_checks: ClassVar[list[str]] = []

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(serve())
