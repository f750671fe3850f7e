"""What an administrator wrote, as those need it who obey it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooks.contracts.actions import Action
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import WindowRule
from hooks.contracts.view import HookCaller

DEFAULT_DEADLINE_S = 1.0
MAX_DEADLINE_S = 30.0
DEFAULT_HELD_CHARS = 64
MAX_HELD_CHARS = 4096


class PolicyMode(StrEnum):
    """OBSERVE evaluates and records what would have been done, and does nothing."""

    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"


class FailureRule(StrEnum):
    """What a policy that cannot be evaluated (an error, its deadline, a webhook that is down) means for its
    request: CLOSED refuses it with 503, OPEN goes on without the policy. Either way it is recorded."""

    CLOSED = "closed"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class PolicyScope:
    """Whose requests a policy is for. What is empty does not limit; those that are not must all hold.
    `models` are ids of models (after aliases were resolved)."""

    team_ids: frozenset[int] = frozenset()
    user_ids: frozenset[int] = frozenset()
    key_ids: frozenset[int] = frozenset()
    models: frozenset[str] = frozenset()

    def covers(self, caller: HookCaller, model: str) -> bool:
        return (
            (not self.team_ids or caller.team_id in self.team_ids)
            and (not self.user_ids or caller.user_id in self.user_ids)
            and (not self.key_ids or caller.key_id in self.key_ids)
            and (not self.models or model in self.models)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One policy. `condition` is a CEL expression of type bool; empty is always true. Lower `order` is
    applied first, equal ones by id. An optional one (`is_required` False) holds only for requests that ask
    for it. `deadline_s` is for the whole policy at one firing, webhook and retries included.

    `window` is for MID_GENERATION. `held_chars` is for OUTPUT on streams: so many characters are held back,
    and what is not longer than that is always seen whole before any of it is released.

    `fault` is not empty where the row could not be read, because somebody wrote it past the checks: in a
    few words for operators, why. Such a policy fails whenever its point comes, and its failure rule applies.
    """

    policy_id: int
    name: str
    point: HookPoint
    actions: tuple[Action, ...]
    condition: str = ""
    order: int = 100
    mode: PolicyMode = PolicyMode.OFF
    is_required: bool = True
    scope: PolicyScope = field(default_factory=PolicyScope)
    deadline_s: float = DEFAULT_DEADLINE_S
    on_failure: FailureRule = FailureRule.CLOSED
    window: WindowRule = field(default_factory=WindowRule)
    held_chars: int = DEFAULT_HELD_CHARS
    fault: str = ""
