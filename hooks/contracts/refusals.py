"""Why something that an administrator, or a webhook, wrote is not taken.

    HookRefusal
    ├── InvalidField     what is written there cannot be
    ├── AlreadyTaken     it could, if nobody else had it, or used it
    └── NotThere         there is no such policy, no such webhook

Messages are for whoever wrote it. They repeat names and numbers, never texts of requests, and no secret.
"""

from __future__ import annotations


class HookRefusal(Exception):
    """`field` is the dotted path of what is at fault, as "actions[0].status"; None where it is nothing in
    particular. `problem` says in a few words what is wrong, without a full stop."""

    def __init__(self, field: str | None, problem: str) -> None:
        super().__init__(
            f"Invalid '{field}': {problem}." if field else f"{problem[:1].upper()}{problem[1:]}."
        )
        self.field = field
        self.problem = problem

    @property
    def message(self) -> str:
        """A sentence."""
        return str(self)


class InvalidField(HookRefusal):
    """Writing it again changes nothing."""


class AlreadyTaken(HookRefusal):
    """Something else is in the way."""


class NotThere(HookRefusal):
    """No row has this id, or name."""
