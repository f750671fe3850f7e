"""How a body asks for the policies that are optional."""

from __future__ import annotations

from inference.openai.fields import Fields

# The second name is that of the service which hooks were first written for.
OPT_IN_FIELDS = ("skippy_hooks", "mesh_hooks")


def read_hooks_opt_in(fields: Fields) -> bool:
    """Only `true` asks for them; any other value says nothing and is no error, as clients of old rely on."""
    return True in [fields.take(name) is True for name in OPT_IN_FIELDS]
