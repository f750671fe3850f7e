"""What one policy came to at one firing, before anything of it is done."""

from __future__ import annotations

from dataclasses import dataclass

from hooks.contracts.actions import Action, Deny
from hooks.contracts.policies import FailureRule, Policy, PolicyMode


@dataclass(slots=True)
class Outcome:
    """`failure` says in a few words why it could not be evaluated, and is empty where it could. `actions` of
    webhooks stand where their call stood. `refused` names what webhooks may not do."""

    policy: Policy
    has_matched: bool = False
    actions: tuple[Action, ...] = ()
    refused: tuple[str, ...] = ()
    failure: str = ""
    elapsed_s: float = 0.0

    @property
    def is_enforced(self) -> bool:
        return self.policy.mode is PolicyMode.ENFORCE

    @property
    def denial(self) -> Deny | None:
        """What it denies with, if it counts."""
        if self.failure or not self.is_enforced:
            return None
        return next((action for action in self.actions if isinstance(action, Deny)), None)

    @property
    def closes(self) -> bool:
        """Its request has to be refused, because it could not be asked."""
        return bool(self.failure) and self.is_enforced and self.policy.on_failure is FailureRule.CLOSED
