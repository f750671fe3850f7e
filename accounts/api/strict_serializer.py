"""Bodies and queries in which nothing is passed over: a field that nobody reads is an error that names it.

A slip in a name (`expire_at`) would otherwise make a key that never ends, and a field that is not the
caller's to set (`is_superuser`) would seem to have been set.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

MAX_NAMED = 10
MAX_SHOWN_NAME = 64


class StrictSerializer(serializers.Serializer):
    """A serializer that refuses unknown fields, each by its name, here and in nested objects."""

    def to_internal_value(self, data: Any) -> Any:
        if hasattr(data, "keys"):
            known = {name for name, field in self.fields.items() if not field.read_only}
            unknown = [name for name in data if name not in known]
            if unknown:
                shown = [shown_name(name) for name in unknown[:MAX_NAMED]]
                raise serializers.ValidationError(
                    {name: [serializers.ErrorDetail("There is no such field.", "unknown")] for name in shown}
                )
        return super().to_internal_value(data)


def shown_name(name: object) -> str:
    """A name from a body as it may stand in an answer: bounded, and free of what terminals obey."""
    text = str(name)[:MAX_SHOWN_NAME].encode("ascii", "backslashreplace").decode("ascii")
    return "".join(character if character.isprintable() else "?" for character in text)
