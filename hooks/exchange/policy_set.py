"""All policies as of one moment, compiled: frozen, so that a request that has begun ends by the policies that
it began with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_

from hooks.conditions import Condition, Needs, condition_compiled
from hooks.contracts.actions import ACTIONS_AT, CallWebhook, MaskText
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.signals import WindowRule
from hooks.contracts.view import HookCaller
from hooks.matching import mask_compiled


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPolicy:
    """`is_broken`: its row cannot be read, or it does not compile (it was saved before something changed), so
    that it cannot be evaluated, and its failure rule applies each time. Each is itself alone, which makes it
    quick to look up what is remembered of several of them."""

    policy: Policy
    condition: Condition | None
    has_webhooks: bool
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """The policies of one point in their order, and all that their conditions may read. `is_costly`: they may
    take any time for it."""

    policies: tuple[CompiledPolicy, ...]
    needs: Needs
    is_costly: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class PolicySet:
    """Those that are not off, in their order."""

    policies: tuple[CompiledPolicy, ...] = ()

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> PolicySet:
        """Compiles: some milliseconds for each condition that is new, on whatever thread."""
        live = [policy for policy in policies if policy.mode is not PolicyMode.OFF]
        live.sort(key=lambda policy: (policy.order, policy.policy_id))
        return cls(tuple([_compiled(policy) for policy in live]))

    def groups_for(self, caller: HookCaller, *, model: str, opts_in: bool) -> Mapping[HookPoint, PolicyGroup]:
        """Those that concern a request, by points; points without any are not there."""
        found: dict[HookPoint, list[CompiledPolicy]] = {}
        for one in self.policies:
            policy = one.policy
            if (policy.is_required or opts_in) and policy.scope.covers(caller, model):
                found.setdefault(policy.point, []).append(one)
        return {point: _group(tuple(group)) for point, group in found.items()}

    def __repr__(self) -> str:
        return f"<PolicySet of {len(self.policies)}>"


@lru_cache(maxsize=256)
def _group(policies: tuple[CompiledPolicy, ...]) -> PolicyGroup:
    conditions = [one.condition for one in policies if one.condition is not None]
    needs = reduce(or_, [one.needs for one in conditions], Needs())
    return PolicyGroup(policies, needs, any(one.is_costly for one in conditions))


def _compiled(policy: Policy) -> CompiledPolicy:
    has_webhooks = any(isinstance(action, CallWebhook) for action in policy.actions)
    try:
        condition = condition_compiled(policy.condition, policy.point)
        for action in policy.actions:
            if isinstance(action, MaskText):
                mask_compiled(action)
    except Exception:
        return CompiledPolicy(policy, None, has_webhooks, is_broken=True)
    is_allowed = all(type(action) in ACTIONS_AT[policy.point] for action in policy.actions)
    return CompiledPolicy(policy, condition, has_webhooks, is_broken=bool(policy.fault) or not is_allowed)


def window_rules(group: PolicyGroup | None) -> dict[WindowRule, int]:
    """The distinct rules of policies at MID_GENERATION, each with its place, in their order."""
    places: dict[WindowRule, int] = {}
    for one in group.policies if group is not None else ():
        places.setdefault(one.policy.window, len(places))
    return places
