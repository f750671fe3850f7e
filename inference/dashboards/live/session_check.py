"""Many sessions are asked about at once, which only engines offer that keep them in a table."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.conf import settings
from django.core import checks


def session_store() -> Any:
    """The class of sessions that is set (SESSION_ENGINE)."""
    return import_module(settings.SESSION_ENGINE).SessionStore


def sessions_are_rows(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
    """A system check: without it the live page would take every session for one that has ended."""
    if hasattr(session_store(), "get_model_class"):
        return []
    return [
        checks.Error(
            f"The live page cannot ask {settings.SESSION_ENGINE} which sessions have ended.",
            hint="Use django.contrib.sessions.backends.db or cached_db, or one of your own with a model.",
            id="dashboards.E001",
        )
    ]
