"""One request's policies at any of its points: asked, settled, recorded. A denial wins over everything, then
a policy that has to be asked and could not be, then order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hooks.conditions import Moment, RequestTexts
from hooks.contracts.actions import Action, MaskText, Tag
from hooks.contracts.decisions import Decision, DecisionResult, Firing, HookDenied, HookFailed
from hooks.contracts.exchange import HookObserver
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import FailureRule
from hooks.contracts.view import HookCaller, RequestView
from hooks.contracts.webhooks import WebhookCaller
from hooks.exchange.beside_loop import within
from hooks.exchange.decision_log import DecisionLog, action_name
from hooks.exchange.draft import Draft
from hooks.exchange.evaluation import LATE, evaluated
from hooks.exchange.outcome import Outcome
from hooks.exchange.policy_set import CompiledPolicy, PolicyGroup
from hooks.matching import MaskFailed

# Masks over more text than this are put on a thread: they take some milliseconds, and no two of them one
# after another may keep the event loop.
LARGE_CHARS = 32_768
# The same of those that have patterns: what they take, nobody knows.
PATTERN_CHARS = 4096
ACTION_FAILED = "an action failed"


@dataclass(slots=True, repr=False)
class Asking:
    """What all points of a request have in common. `texts` are those of the request as of now; who carries
    the exchange through its points replaces them."""

    groups: Mapping[HookPoint, PolicyGroup]
    caller: HookCaller
    model: str
    request_id: str
    texts: RequestTexts
    webhooks: WebhookCaller
    observer: HookObserver
    log: DecisionLog = field(default_factory=DecisionLog)

    def moment(self, point: HookPoint) -> Moment:
        return Moment(point=point, caller=self.caller, model=self.model, texts=self.texts)

    @property
    def request(self) -> RequestView:
        return self.texts.request

    @request.setter
    def request(self, request: RequestView) -> None:
        if request is not self.texts.request:
            self.texts = RequestTexts(request)

    async def settle(
        self, moment: Moment, draft: Draft, policies: Sequence[CompiledPolicy] | None = None
    ) -> tuple[Draft, tuple[int, ...]]:
        """Asks the policies of the moment's point, or those of them that are given. What comes of the draft,
        and for each new injection the place of its decision in the log. Raises HookDenied and HookFailed."""
        group = self.groups[moment.point]
        asked = group.policies if policies is None else policies
        outcomes: Sequence[Outcome] = await evaluated(
            group, asked, moment, request_id=self.request_id, webhooks=self.webhooks
        )
        if not any(outcome.has_matched or outcome.failure for outcome in outcomes):
            for outcome in outcomes:
                self._note(moment.point, outcome, None)
            return draft, ()
        denier = next((outcome for outcome in outcomes if outcome.denial is not None), None)
        settling = _Settling(draft, denier)
        if _is_long(outcomes, draft):
            settling, outcomes = await _settled_beside(settling, outcomes)
        else:
            settling.apply(outcomes)
        places = self._record(moment, outcomes, settling)
        self.log.add_tags(settling.draft.tags)
        if denier is not None and denier.denial is not None:
            denial = denier.denial
            raise HookDenied(
                denial.message, status=denial.status, code=denial.code, policy=denier.policy.name
            )
        # At the end nothing is left to refuse.
        if moment.point is not HookPoint.TERMINAL:
            for outcome in outcomes:
                if outcome.closes:
                    raise HookFailed(outcome.policy.name)
        return settling.draft, places

    def _record(self, moment: Moment, outcomes: Sequence[Outcome], settling: _Settling) -> tuple[int, ...]:
        places: list[int] = []
        for outcome in outcomes:
            result: DecisionResult | None = None
            if outcome.failure or outcome.has_matched:
                result, reason = settling.result_of(outcome, moment.point)
                place = self.log.add(
                    Decision(
                        policy_id=outcome.policy.policy_id,
                        policy=outcome.policy.name,
                        point=moment.point,
                        actions=tuple([action_name(action) for action in outcome.actions]),
                        result=result,
                        reason=reason,
                        choice=moment.choice,
                        elapsed_s=outcome.elapsed_s,
                    )
                )
                places += [place] * settling.num_injections.get(id(outcome), 0)
            self._note(moment.point, outcome, result)
        return tuple(places)

    def _note(self, point: HookPoint, outcome: Outcome, result: DecisionResult | None) -> None:
        policy = outcome.policy
        self.observer.firing_noted(
            Firing(policy.policy_id, policy.name, point, outcome.has_matched, result, outcome.elapsed_s)
        )


class _Settling:
    """All outcomes of a point, put into one draft in their order. Knows no event loop."""

    def __init__(self, draft: Draft, denier: Outcome | None) -> None:
        self.draft = draft
        self.denier = denier
        self._refusals: dict[int, str] = {}
        self.num_injections: dict[int, int] = {}

    def apply(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.failure or not outcome.has_matched:
                continue
            if not outcome.is_enforced:
                outcome.has_matched = self._would_do_something(outcome)
                continue
            if self.denier is not None:
                # Nothing else happens to a request that is denied, but its record gets its tags.
                tags = tuple([action for action in outcome.actions if isinstance(action, Tag)])
                self.draft, _ = self.draft.with_actions(tags)
                if outcome.denial is None and len(tags) < len(outcome.actions):
                    self._refusals[id(outcome)] = "another policy denies"
                continue
            self._apply_one(outcome)

    def _apply_one(self, outcome: Outcome) -> None:
        try:
            draft, refusals = self.draft.with_actions(outcome.actions)
        except MaskFailed as failure:
            outcome.failure = failure.reason
            return
        except Exception:
            outcome.failure = ACTION_FAILED
            return
        if draft.unmasked:
            if outcome.policy.on_failure is FailureRule.CLOSED:
                outcome.failure = draft.unmasked
                return
            draft = replace(draft, unmasked="")
        # A window of a stream has seldom anything that is to be masked: where nothing was, nothing is told.
        outcome.has_matched = draft is not self.draft or not _only_masks(outcome)
        if added := len(draft.injections) - len(self.draft.injections):
            self.num_injections[id(outcome)] = added
        self.draft = draft
        if refusals or outcome.refused:
            against_rights = ("against the webhook's rights",) if outcome.refused else ()
            self._refusals[id(outcome)] = "; ".join([*refusals, *against_rights])

    def _would_do_something(self, outcome: Outcome) -> bool:
        if not _only_masks(outcome):
            return True
        try:
            draft, _ = self.draft.with_actions(outcome.actions)
        except Exception:
            # It would have failed.
            return True
        return draft is not self.draft

    def result_of(self, outcome: Outcome, point: HookPoint) -> tuple[DecisionResult, str]:
        if outcome.failure:
            is_closed = outcome.closes and point is not HookPoint.TERMINAL
            result = DecisionResult.FAILED_CLOSED if is_closed else DecisionResult.FAILED_OPEN
            return result, outcome.failure
        if not outcome.is_enforced:
            return DecisionResult.OBSERVED, ""
        refusal = self._refusals.get(id(outcome), "")
        return (DecisionResult.REFUSED if refusal else DecisionResult.APPLIED), refusal


def only_masks(actions: Sequence[Action]) -> bool:
    """Where it finds nothing, nothing was to be done."""
    return bool(actions) and all(isinstance(action, MaskText) for action in actions)


def _only_masks(outcome: Outcome) -> bool:
    """Of its own: what a webhook may not do is told in any case."""
    return not outcome.refused and only_masks(outcome.actions)


def _has_patterns(outcome: Outcome) -> bool:
    return any(isinstance(action, MaskText) and action.patterns for action in outcome.actions)


def _is_long(outcomes: Sequence[Outcome], draft: Draft) -> bool:
    masks = [one for outcome in outcomes for one in outcome.actions if isinstance(one, MaskText)]
    if not masks:
        return False
    limit = PATTERN_CHARS if any(mask.patterns for mask in masks) else LARGE_CHARS
    return (draft.request if draft.output is None else draft.output).num_chars > limit


async def _settled_beside(
    settling: _Settling, outcomes: Sequence[Outcome]
) -> tuple[_Settling, Sequence[Outcome]]:
    """On a thread, which has outcomes of its own. Whatever else masks look for takes time in proportion to
    the text; patterns have the time of their policies. Where they are late, they have failed, all of them:
    nobody knows which one it was."""
    draft, denier = settling.draft, settling.denier
    own = [replace(outcome) for outcome in outcomes]
    limit_s = max([one.policy.deadline_s for one in outcomes if _has_patterns(one)], default=None)
    try:
        await within(lambda: settling.apply(own), limit_s=limit_s)
    except TimeoutError:
        settling = _Settling(draft, denier)
        for outcome in outcomes:
            if outcome.has_matched and _has_patterns(outcome):
                outcome.failure = outcome.failure or LATE
        settling.apply(outcomes)
        return settling, outcomes
    return settling, own
