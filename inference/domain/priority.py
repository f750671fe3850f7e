"""How urgent the requests of a key are, where more people ask than can be served at once."""

from __future__ import annotations

from enum import Enum


class PriorityClass(Enum):
    """The most urgent class first. Within a class, users are served fairly."""

    INTERACTIVE = "interactive"
    NORMAL = "normal"
    BATCH = "batch"
