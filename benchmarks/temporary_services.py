"""A Postgres and a Valkey of a benchmark's own, in a temporary folder, with all tables."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_services() -> Iterator[None]:
    """Django is set up inside; nothing of it may have been imported before."""
    from skippy_site.state import StateFolder
    from skippy_site.supervisor.discovery import embedded_urls
    from tests.plugin import TestServices

    with tempfile.TemporaryDirectory() as folder:
        state = StateFolder(Path(folder))
        state.make()
        os.environ.update(embedded_urls(state).as_environment())
        os.environ["SKIPPY_HOME"] = str(state.root)
        os.environ["DJANGO_SETTINGS_MODULE"] = "skippy_site.settings"
        services = TestServices(state)
        services.start()
        try:
            import django
            from django.core.management import call_command
            from django.db import connection

            django.setup()
            call_command("migrate", verbosity=0)
            yield
            connection.close()
        finally:
            services.stop()
