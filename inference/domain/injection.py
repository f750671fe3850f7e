"""Why text of a hook does not enter a running sequence."""

from __future__ import annotations

from enum import StrEnum


class InjectionRefusal(StrEnum):
    """The sequence goes on as if nothing had been asked.

    NOT_HELD: it does not stand still for signals: it was resumed, or was held for something else.
    CONSTRAINED: what may follow is said by a constraint, which the tokens would break.
    EMPTY: there are no tokens. CONTROL_TOKEN: one of them is a control token, or none of the vocabulary.
    NO_ROOM: they and one token of the answer do not fit the context any more.
    """

    NOT_HELD = "not_held"
    CONSTRAINED = "constrained"
    EMPTY = "empty"
    CONTROL_TOKEN = "control_token"  # noqa: S105  of a vocabulary
    NO_ROOM = "no_room"
