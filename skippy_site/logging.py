"""Where log lines go: one plain line each on standard error, which the supervisor keeps and rotates.

Every process writes to standard error only. The supervisor catches that of its children in files
that rotate by size; run alone (`manage.py …`), the lines are simply shown.
"""

from __future__ import annotations

from typing import Any


def logging_configuration(level: str) -> dict[str, Any]:
    """Django's LOGGING. `level` is the least level of our own loggers; libraries say less."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            name: {"level": level.upper()}
            for name in ("inference", "accounts", "hooks", "skippy_site", "llama.cpp")
        },
    }
