"""What is recorded of one request's policies: bounded, since a point of a long stream fires often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hooks.contracts.actions import Action
from hooks.contracts.decisions import Decision, DecisionResult
from hooks.contracts.points import HookPoint

MAX_DECISIONS = 256
# Why a request or an answer ended is told however much was decided before: nobody may talk it off the record.
MAX_ENDINGS = 32
_ENDING_ACTIONS = frozenset({"deny", "stop_generation"})
MAX_TAGS = 64
NOT_KEPT = -1

_CAPITAL = re.compile("(?<!^)(?=[A-Z])")


def action_name(action: Action) -> str:
    """As it is written in policies: MaskText is mask_text."""
    return _CAPITAL.sub("_", type(action).__name__).lower()


class DecisionLog:
    """In order. Where it is full, the first ones are kept, and of those that follow only the ones that ended
    something."""

    def __init__(self) -> None:
        self._decisions: list[Decision] = []
        self._tags: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<DecisionLog of {len(self._decisions)}>"

    @property
    def decisions(self) -> Sequence[Decision]:
        return tuple(self._decisions)

    @property
    def tags(self) -> dict[str, str]:
        return dict(self._tags)

    def add(self, decision: Decision) -> int:
        """Its place, NOT_KEPT where the log is full."""
        if len(self._decisions) >= MAX_DECISIONS + (MAX_ENDINGS if _is_ending(decision) else 0):
            return NOT_KEPT
        self._decisions.append(decision)
        return len(self._decisions) - 1

    def add_tags(self, tags: Iterable[tuple[str, str]]) -> None:
        for name, value in tags:
            if name in self._tags or len(self._tags) < MAX_TAGS:
                self._tags[name] = value

    def note_injection(self, place: int, *, num_injected: int, num_discarded: int, refusal: str) -> None:
        """Of a decision that is not kept there is nothing to note."""
        if not 0 <= place < len(self._decisions):
            return
        decision = self._decisions[place]
        self._decisions[place] = replace(
            decision,
            result=DecisionResult.REFUSED if refusal else decision.result,
            reason=refusal or decision.reason,
            num_injected_tokens=decision.num_injected_tokens + num_injected,
            num_discarded_tokens=decision.num_discarded_tokens + num_discarded,
        )


def _is_ending(decision: Decision) -> bool:
    if decision.point is HookPoint.TERMINAL or decision.result is DecisionResult.FAILED_CLOSED:
        return True
    return decision.result is DecisionResult.APPLIED and not _ENDING_ACTIONS.isdisjoint(decision.actions)
