"""Which request this is about, for log lines of code that was never told.

A context variable: each request's task has its own value, and what it starts inherits it.
"""

from __future__ import annotations

from contextvars import ContextVar

current_request_id: ContextVar[str] = ContextVar("current_request_id", default="")
"""Empty outside of a request."""
