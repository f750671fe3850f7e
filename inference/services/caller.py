"""Who asks, as far as generating is concerned."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.priority import PriorityClass


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, the class of its key, and the key of its trusted session (None without one)."""

    user_id: int
    priority: PriorityClass = PriorityClass.NORMAL
    session: int | None = None
