"""What one policy would have done to a past request.

What is not known is not guessed: a variable without a value is an error for CEL, and `||`, `&&` and the
comprehensions that are made of them pass over an error where the other side decides. So an expression is true
or false where it would be so whatever the unknown was, and otherwise nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from hooks.applying import output_draft
from hooks.conditions import Condition, ConditionFailed, Context, Needs
from hooks.conditions.context import HAS_ERROR
from hooks.contracts.actions import Action, CallWebhook, Deny, MaskText, Tag, TextTarget
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule, Policy, PolicyMode
from hooks.contracts.view import TextPart
from hooks.exchange.asking import ACTION_FAILED, only_masks
from hooks.exchange.decision_log import action_name
from hooks.exchange.draft import Draft
from hooks.exchange.evaluation import BROKEN
from hooks.exchange.policy_set import PolicySet
from hooks.matching import MaskFailed, mask_compiled
from hooks.replaying.knowledge import Gap, gaps, has_unseen, past_moment, record_key, request_gap
from hooks.replaying.past_request import PastRequest

# Each may have all of a request's metadata in it.
MAX_REMEMBERED = 4_000
_NEEDS_SIGNALS = frozenset({HookPoint.AFTER_PREFILL, HookPoint.MID_GENERATION})
NOT_IN_SCOPE = "it is not in the policy's scope"
NOT_OPTED_IN = "it did not ask for optional policies"


class Coverage(StrEnum):
    """UNASKED: the policy would not have been asked. FULL: with its text. CONDITION: without it, by what the
    record has. NONE: it cannot be said."""

    UNASKED = "unasked"
    FULL = "full"
    CONDITION = "condition"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` says it of UNASKED and NONE. Of the others: whether it matched, or `failure`, and then whether
    the request would have been refused for that. `actions` are what would have been done, by name;
    `num_matches` is how often text would have been masked, None where that is not known; `left_out` are
    actions that could not have been done."""

    coverage: Coverage
    why: str = ""
    has_matched: bool = False
    failure: str = ""
    is_refused: bool = False
    actions: tuple[str, ...] = ()
    num_matches: int | None = None
    webhook_ids: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()


class ReplayJudge:
    """Of one policy, as if it were enforced, and alone. Any thread; one at a time."""

    def __init__(self, policy: Policy) -> None:
        """Compiles."""
        (compiled,) = PolicySet.of([replace(policy, mode=PolicyMode.ENFORCE)]).policies
        self._policy = policy
        self._condition = compiled.condition
        self._is_broken = compiled.is_broken
        needs = Needs() if compiled.condition is None else compiled.condition.needs
        searched = {search.variable.name for search in needs.searches}
        self._needs = needs
        self._names = sorted(needs.variables | searched)
        self._denial = next((one for one in policy.actions if isinstance(one, Deny)), None)
        self._only_masks = only_masks(policy.actions)
        self._remembered: dict[object, Verdict] = {}

    def judge(self, past: PastRequest) -> Verdict:
        policy = self._policy
        if not policy.scope.covers(past.caller, past.model):
            return Verdict(Coverage.UNASKED, NOT_IN_SCOPE)
        if policy.point in past.unasked:
            return Verdict(Coverage.UNASKED, past.unasked[policy.point])
        if past.text is not None:
            return self._judged(past)
        # Of most records the same few things are read: what was said of one holds for all that are alike.
        key = (
            past.is_text_closed,
            past.is_stream,
            past.is_erased,
            past.is_changed,
            past.outcome_kind,
            past.end_user is None,
            past.metadata is None,
            record_key(past, self._names),
        )
        known = self._remembered.get(key)
        if known is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            known = self._remembered[key] = self._judged(past)
        return known

    def _judged(self, past: PastRequest) -> Verdict:
        policy = self._policy
        view = None if past.text is None else past.text.request
        if not policy.is_required and view is not None and not view.opts_in:
            return Verdict(Coverage.UNASKED, NOT_OPTED_IN)
        unknown = gaps(past, policy.point, self._names)
        is_full = not unknown and past.text is not None and self._has_texts(past)
        coverage = Coverage.FULL if is_full else Coverage.CONDITION
        try:
            holds = self._holds(past, unknown)
        except ConditionFailed as failed:
            if unknown and failed.reason == HAS_ERROR:
                return Verdict(Coverage.NONE, _first(unknown))
            holds, failure = None, failed.reason
        else:
            failure = BROKEN if self._is_broken else ""
        if holds is False:
            return Verdict(coverage)
        if not policy.is_required and view is None:
            return Verdict(Coverage.NONE, Gap.OPT_IN.value)
        if failure:
            return self._failed(coverage, failure)
        if self._only_masks and (gap := self._mask_gap(past)):
            return Verdict(Coverage.NONE, gap)
        return self._matched(past, coverage)

    def _holds(self, past: PastRequest, unknown: dict[str, Gap]) -> bool:
        if self._condition is None:
            return True
        known = Needs(
            frozenset(name for name in self._needs.variables if name not in unknown),
            frozenset(one for one in self._needs.searches if one.variable.name not in unknown),
        )
        condition: Condition = self._condition
        return Context(past_moment(past, condition.point), known).holds(condition)

    def _has_texts(self, past: PastRequest) -> bool:
        """Whether all is there that actions would be done to."""
        text = past.text
        if text is None or text.request is None:
            return False
        return self._policy.point is not HookPoint.OUTPUT or text.output is not None

    def _mask_gap(self, past: PastRequest) -> str:
        """Why it cannot be said whether masks would have found something; "" where it can."""
        text = past.text
        if self._policy.point is not HookPoint.OUTPUT:
            if request_gap(past):
                return Gap.UNMASKED.value
            return Gap.TOKENS.value if has_unseen(past) else ""
        if text is None or text.output is None:
            return Gap.UNMASKED.value
        targets = {
            target for one in self._policy.actions if isinstance(one, MaskText) for target in one.targets
        }
        return Gap.THINKING.value if TextTarget.REASONING in targets and past.has_thinking else ""

    def _failed(self, coverage: Coverage, failure: str) -> Verdict:
        is_closed = self._policy.on_failure is FailureRule.CLOSED
        is_refused = is_closed and self._policy.point is not HookPoint.TERMINAL
        return Verdict(coverage, failure=failure, is_refused=is_refused)

    def _matched(self, past: PastRequest, coverage: Coverage) -> Verdict:
        policy = self._policy
        webhook_ids = tuple([one.webhook_id for one in policy.actions if isinstance(one, CallWebhook)])
        if self._denial is not None:
            # Nothing else happens to a request that is denied, but its record gets its tags.
            done: Sequence[Action] = [self._denial, *[one for one in policy.actions if isinstance(one, Tag)]]
            names = tuple([action_name(one) for one in done])
            return Verdict(coverage, has_matched=True, actions=names, webhook_ids=webhook_ids)
        names = tuple(dict.fromkeys([action_name(one) for one in policy.actions]))
        plain = Verdict(coverage, has_matched=True, actions=names, webhook_ids=webhook_ids)
        if not self._has_texts(past):
            return plain
        try:
            return self._done(past, plain)
        except MaskFailed as failed:
            return self._failed(coverage, failed.reason)
        except Exception:
            return self._failed(coverage, ACTION_FAILED)

    def _done(self, past: PastRequest, plain: Verdict) -> Verdict:
        """With the actions done, on the side, as in earnest."""
        moment = past_moment(past, self._policy.point)
        output = None if moment.output is None else output_draft(moment.output)
        first = draft = Draft(point=self._policy.point, request=moment.request, output=output)
        num_matches = 0
        left_out: list[str] = []
        for action in self._policy.actions:
            if isinstance(action, CallWebhook):
                continue
            after, refusals = draft.with_actions((action,))
            left_out += refusals
            if isinstance(action, MaskText) and after is not draft:
                num_matches += _num_masked(draft, after, action)
            draft = after
            if draft.unmasked and self._policy.on_failure is FailureRule.CLOSED:
                return self._failed(plain.coverage, draft.unmasked)
        if self._only_masks and draft is first and not left_out:
            return Verdict(plain.coverage)
        return replace(plain, num_matches=num_matches, left_out=tuple(dict.fromkeys(left_out)))


def _num_masked(before: Draft, after: Draft, action: MaskText) -> int:
    if before.output is not None and after.output is not None:
        return max(0, len(after.output.edits) - len(before.output.edits))
    mask = mask_compiled(action)
    request = before.request
    num = sum([len(mask.places(text)) for text in (*request.prompts, *request.beside_texts) if text])
    for message in request.messages:
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        texts += [message.name or "", message.reasoning or ""]
        num += sum([len(mask.places(text)) for text in texts if text])
        num += sum([len(mask.places(text, is_json=True)) for text in message.tool_arguments])
    return num


def _first(unknown: dict[str, Gap]) -> str:
    """One reason for a request, the one that would have to go first."""
    order = list(Gap)
    return min(unknown.values(), key=order.index).value


def point_refusal(point: HookPoint) -> str:
    """Why policies of this point cannot be replayed at all; "" where they can."""
    if point not in _NEEDS_SIGNALS:
        return ""
    return (
        f"policies at {point.value} are asked with how sure the model was, which no record has: "
        "they cannot be replayed, but tried with signals that you write"
    )
