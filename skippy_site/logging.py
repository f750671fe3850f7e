"""Where log lines go: one line each on standard error, which the supervisor keeps and rotates.

Every process writes to standard error only. The supervisor catches that of its children in files
that rotate by size; run alone (`manage.py …`), the lines are simply shown. They are text, or JSON
objects for machines to read (`SKIPPY_LOG_FORMAT`). What looks like an API key or like the token of a
password link is blacked out in both: no line of ours has one, but a library's (Django names the path of
what was not found), or a traceback's, might.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from accounts.keys import without_keys
from accounts.password_tokens import without_tokens
from inference.domain.request_context import current_request_id


def without_secrets(line: str) -> str:
    return without_tokens(without_keys(line))


class LineFormatter(logging.Formatter):
    """Plain lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at (UTC, ISO 8601), level, logger, message, request_id where there is one,
    and exception where there was one."""

    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        at = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line: dict[str, str] = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := getattr(record, "request_id", "") or current_request_id.get():
            line["request_id"] = request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, ensure_ascii=False))


def logging_configuration(level: str, *, log_format: str = "line") -> dict[str, Any]:
    """Django's LOGGING. `level` is the least level of our own loggers; libraries say less.
    `log_format` is line or json."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {"()": LineFormatter, "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
            "json": {"()": JsonFormatter},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": log_format}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            name: {"level": level.upper()}
            for name in ("inference", "accounts", "hooks", "skippy_site", "llama.cpp")
        },
    }
