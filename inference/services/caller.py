"""Who asks, as far as generating is concerned."""

from __future__ import annotations

from dataclasses import dataclass

from inference.domain.priority import PriorityClass
from inference.hooking.request_hooks import RequestHooks
from inference.services.limit_gate import LimitGate


@dataclass(frozen=True, slots=True)
class Caller:
    """A user, the class of its key, the key of its trusted session (None without one), and the gate of
    its limits (None where none hold). `waited_s`: how long it has waited already, for its model. `hooks` are
    those of its request, None where no policy is for it."""

    user_id: int
    priority: PriorityClass = PriorityClass.NORMAL
    session: int | None = None
    limit_gate: LimitGate | None = None
    waited_s: float = 0.0
    hooks: RequestHooks | None = None
