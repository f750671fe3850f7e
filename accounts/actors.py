"""Who is changing something just now, so that a change can be told of without every function being told who.

A door sets the actor around its work; whatever happens inside it (in this thread, or in what asyncio
runs for it) is that actor's. Outside of a request it is whoever runs the process: commands, the first
start, scheduled tasks. Standard library only.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Door(StrEnum):
    """By which way a change came in."""

    ADMIN = "admin"
    API = "api"
    COMMAND = "command"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is None where nobody has signed in; `name` is then that of the operating system's account."""

    door: Door
    user_id: int | None
    name: str
    key_id: int | None = None
    request_id: str | None = None


_actor: ContextVar[Callable[[], Actor] | None] = ContextVar("actor", default=None)


def current_actor() -> Actor:
    """Asked when a change is made and not before: a request knows its user only after a while."""
    tell = _actor.get()
    return Actor(Door.COMMAND, None, _system_account()) if tell is None else tell()


@contextmanager
def acting(tell: Callable[[], Actor]) -> Iterator[None]:
    """Changes made inside are those of whom `tell` names at the time."""
    token = _actor.set(tell)
    try:
        yield
    finally:
        _actor.reset(token)


@cache
def _system_account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without an entry, as in containers
        return "unknown"
