"""The part of a page that holds limits; keys, users and teams have the same one."""

from __future__ import annotations

from typing import Any

from accounts.models.limit_columns import LIMIT_COLUMNS

LIMIT_FIELDSET: tuple[str, dict[str, Any]] = (
    "Limits",
    {
        "fields": LIMIT_COLUMNS,
        "description": "The limits of a key, of its user and of the user's team all hold at once. "
        "A change is in force within 5 seconds.",
    },
)
USE_FIELDSET: tuple[str, dict[str, Any]] = ("Used of the limits", {"fields": ["used_of_limits"]})
