"""All policies of a point, asked about the same input: conditions one after another, webhooks all at once.

Nothing that goes wrong here goes further than the outcome of its policy: a condition with an error, a webhook
that hangs, raises, or answers what it may not. Whoever is cancelled cancels the calls in flight.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from hooks.conditions import ConditionFailed, Context, Moment
from hooks.contracts.actions import ACTIONS_AT, MAX_DENY_STATUS, MIN_DENY_STATUS, Action, CallWebhook, Deny
from hooks.contracts.points import HookPoint
from hooks.contracts.policies import PolicyMode
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookCaller, WebhookFailed
from hooks.exchange.beside_loop import within
from hooks.exchange.outcome import Outcome
from hooks.exchange.policy_set import CompiledPolicy, PolicyGroup
from hooks.exchange.screening import screened

MAX_ANSWER_ACTIONS = 32
LATE = "the deadline has passed"
BROKEN = "the policy does not compile"
# Of more text than this, what conditions read is made on a thread: it takes some milliseconds.
LARGE_CHARS = 131_072
# Of more than this, conditions with patterns or comprehensions are: what they take, nobody knows.
COSTLY_CHARS, COSTLY_ITEMS = 4096, 64

logger = logging.getLogger(__name__)


async def evaluated(
    group: PolicyGroup,
    policies: Sequence[CompiledPolicy],
    moment: Moment,
    *,
    request_id: str,
    webhooks: WebhookCaller,
) -> list[Outcome]:
    """One outcome for each of `policies`, which are some of `group`, in their order."""
    context = Context(moment, group.needs)
    outcomes: list[Outcome] = []
    if _is_long(group, moment):
        outcomes = await _judged_beside(policies, context)
    else:
        _judge(policies, context, outcomes)
    if any(one.has_webhooks for one in policies):
        calls = [
            _Call(outcome, action)
            for outcome in outcomes
            if outcome.has_matched and not outcome.failure
            for action in outcome.actions
            if isinstance(action, CallWebhook)
        ]
        if calls:
            await _ask(calls, moment, request_id, webhooks)
    return outcomes


def _is_long(group: PolicyGroup, moment: Moment) -> bool:
    """Whether it may take milliseconds, or nobody knows how long."""
    if not (group.needs or group.is_costly):
        return False
    if moment.num_chars > LARGE_CHARS:
        return bool(group.needs)
    return group.is_costly and (moment.num_chars > COSTLY_CHARS or moment.num_items > COSTLY_ITEMS)


async def _judged_beside(policies: Sequence[CompiledPolicy], context: Context) -> list[Outcome]:
    """As long as any of them may take; those that nobody came to by then are late."""
    outcomes: list[Outcome] = []
    limit_s = max([one.policy.deadline_s for one in policies], default=0.0)
    try:
        await within(lambda: _judge(policies, context, outcomes), limit_s=limit_s)
    except TimeoutError:
        known = outcomes[:]
        late = [one.policy for one in policies[len(known) :]]
        return [*known, *[Outcome(policy, failure=LATE, elapsed_s=limit_s) for policy in late]]
    return outcomes


def _judge(policies: Sequence[CompiledPolicy], context: Context, outcomes: list[Outcome]) -> None:
    """Adds one outcome after another to `outcomes`, and does not touch those that are there."""
    begin_ts = time.perf_counter()
    for piece, is_silent in screened(policies, context):
        if is_silent:
            end_ts = time.perf_counter()
            share_s = (end_ts - begin_ts) / len(piece)
            outcomes += [Outcome(one.policy, elapsed_s=share_s) for one in piece]
            begin_ts = end_ts
            continue
        for one in piece:
            outcome = _judged(one, context)
            end_ts = time.perf_counter()
            outcome.elapsed_s = end_ts - begin_ts
            if outcome.elapsed_s > one.policy.deadline_s:
                outcome.failure = LATE
            outcomes.append(outcome)
            begin_ts = end_ts


def _judged(compiled: CompiledPolicy, context: Context) -> Outcome:
    policy = compiled.policy
    outcome = Outcome(policy)
    try:
        if compiled.is_broken:
            outcome.failure = BROKEN
        elif compiled.condition is None or context.holds(compiled.condition):
            outcome.has_matched = True
            outcome.actions = policy.actions
    except ConditionFailed as error:
        outcome.failure = error.reason
    except Exception as error:
        outcome.failure = _unforeseen(policy.policy_id, error)
    return outcome


class _Call:
    """One webhook of one policy."""

    def __init__(self, outcome: Outcome, action: CallWebhook) -> None:
        self.outcome = outcome
        self.action = action
        self.deadline_s = max(0.0, outcome.policy.deadline_s - outcome.elapsed_s)
        self.actions: tuple[Action, ...] = ()
        self.begin_ts = time.monotonic()
        self.elapsed_s = 0.0

    def task(self, moment: Moment, request_id: str, webhooks: WebhookCaller) -> asyncio.Task[WebhookAnswer]:
        policy = self.outcome.policy
        call = WebhookCall(
            webhook_id=self.action.webhook_id,
            policy_id=policy.policy_id,
            policy=policy.name,
            point=moment.point,
            request_id=request_id,
            caller=moment.caller,
            request=moment.request,
            choice=moment.choice,
            signals=moment.first_token or moment.window,
            output=moment.output,
            outcome=moment.outcome,
            is_observed=policy.mode is PolicyMode.OBSERVE,
        )
        return asyncio.create_task(self._answer(webhooks, call))

    async def _answer(self, webhooks: WebhookCaller, call: WebhookCall) -> WebhookAnswer:
        try:
            return await webhooks.call(call, timeout_s=self.deadline_s)
        finally:
            self.elapsed_s = time.monotonic() - self.begin_ts

    def take(self, task: asyncio.Task[WebhookAnswer], point: HookPoint) -> None:
        outcome = self.outcome
        if not task.done():
            self.elapsed_s = time.monotonic() - self.begin_ts
            outcome.failure = outcome.failure or LATE
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            reason = error.reason if isinstance(error, WebhookFailed) else ""
            outcome.failure = outcome.failure or reason or _unforeseen(outcome.policy.policy_id, error)
            return
        answer = task.result()
        if not _is_allowed(answer, point):
            outcome.failure = outcome.failure or "a webhook's answer makes no sense"
            return
        self.actions = answer.actions
        outcome.refused += answer.refused


async def _ask(calls: Sequence[_Call], moment: Moment, request_id: str, webhooks: WebhookCaller) -> None:
    tasks = [call.task(moment, request_id, webhooks) for call in calls]
    try:
        # All of them run; each is waited for until its own deadline, and no longer, also where it does not
        # heed that it is cancelled.
        for call, task in zip(calls, tasks, strict=True):
            if not task.done():
                left_s = call.begin_ts + call.deadline_s - time.monotonic()
                await asyncio.wait({task}, timeout=max(0.0, left_s))
            call.take(task, moment.point)
    finally:
        for task in tasks:
            task.add_done_callback(_retrieved)
            task.cancel()
    answers = iter(calls)
    for outcome in {id(call.outcome): call.outcome for call in calls}.values():
        outcome.elapsed_s += max([call.elapsed_s for call in calls if call.outcome is outcome])
        expanded: list[Action] = []
        for action in outcome.actions:
            expanded += next(answers).actions if isinstance(action, CallWebhook) else (action,)
        outcome.actions = tuple(expanded)


def _is_allowed(answer: object, point: HookPoint) -> bool:
    return (
        isinstance(answer, WebhookAnswer)
        and len(answer.actions) <= MAX_ANSWER_ACTIONS
        and all(_makes_sense(action, point) for action in answer.actions)
    )


def _makes_sense(action: Action, point: HookPoint) -> bool:
    if isinstance(action, Deny) and not MIN_DENY_STATUS <= action.status <= MAX_DENY_STATUS:
        return False
    return type(action) in ACTIONS_AT[point] and not isinstance(action, CallWebhook)


def _unforeseen(policy_id: int, error: BaseException) -> str:
    # Its message may hold what somebody wrote.
    logger.error("Policy %d could not be evaluated: %s", policy_id, type(error).__name__)
    return "the evaluation failed"


def _retrieved(task: asyncio.Future[WebhookAnswer]) -> None:
    """What a call that nobody waits for any more raises is nobody's."""
    if not task.cancelled():
        task.exception()
