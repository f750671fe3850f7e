"""What policies would do to a request: tried by the same exchange that serves, and nothing comes of it.

Nobody generates for it, so what the later points would come with (how sure the model is, text of an answer)
is said by who tries; a point of which nothing is said is not tried. Webhooks are not called, unless who tries
says so and may: the request is somebody's, and who tries may not be the one who may send it on. They count as
having nothing against.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from hooks.contracts.actions import InjectText, StopReason, TextTarget
from hooks.contracts.decisions import Decision, Firing, HookDenied, HookFailed, OutputVerdict, TextEdit
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.policies import Policy, PolicyMode
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookCaller
from hooks.exchange import PolicyDesk, PolicySet, RequestExchange


class AnswerWindow(Protocol):
    """An answer on its way out: whole, or as a stream in pieces, held back as the service holds them back."""

    def next(self) -> OutputText | None:
        """What policies are shown next; None at the end."""
        ...

    def release(self, verdict: OutputVerdict) -> OutputText:
        """What goes out after that. With a reason to stop it is the last of it."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class WindowStep:
    """What policies were shown of an answer, and what then went out, None where they refused it."""

    seen: OutputText
    released: OutputText | None


# All conditions of all policies on one request take a small part of it, unless the machine is very busy.
TERMINAL_PATIENCE_S = 10.0
_TRIED = "tried"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trial:
    """`model` is the id that the request's name was resolved to. `outcome` None: success, or what the
    policies made of it."""

    caller: HookCaller
    model: str
    request: RequestView
    first_token: FirstTokenSignals | None = None
    window: WindowSignals | None = None
    output: OutputText | None = None
    answer: Callable[[int, int], AnswerWindow] | None = None
    """In place of `output`: makes the window of an answer, of which policies want so many characters held
    back, and so many seen at once."""
    outcome: TerminalOutcome | None = None

    def __repr__(self) -> str:
        return f"<Trial {self.request!r}>"


@dataclass(frozen=True, slots=True, repr=False)
class TrialResult:
    """`firings` are all that were asked, in their order, matching or not; `decisions` those that matched or
    failed. `effective` is the request as generation would get it, None where it was refused before. `output`
    is the text as it would go out, `steps` those of an `answer`. `webhook_ids` are those that would have been
    called, or were."""

    firings: tuple[Firing, ...] = ()
    decisions: tuple[Decision, ...] = ()
    effective: RequestView | None = None
    output: OutputText | None = None
    injections: tuple[InjectText, ...] = ()
    stop: StopReason | None = None
    denial: HookDenied | None = None
    failed_policy: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    webhook_ids: tuple[int, ...] = ()
    steps: tuple[WindowStep, ...] = ()

    def __repr__(self) -> str:
        return f"<TrialResult of {len(self.firings)} firings>"


def policies_enforced(policies: Sequence[Policy], policy_ids: frozenset[int]) -> tuple[Policy, ...]:
    """Those that are on as they are, and those of these ids enforced, whatever their mode."""
    return tuple(
        [
            replace(policy, mode=PolicyMode.ENFORCE) if policy.policy_id in policy_ids else policy
            for policy in policies
            if policy.policy_id in policy_ids or policy.mode is not PolicyMode.OFF
        ]
    )


def firings_decided(result: TrialResult) -> list[tuple[Firing, Decision | None]]:
    """Each firing with what was decided at it, taken from `decisions`, which are in the same order."""
    left, paired = list(result.decisions), []
    for firing in result.firings:
        decision = next(
            (one for one in left if (one.point, one.policy_id) == (firing.point, firing.policy_id)), None
        )
        if decision is not None:
            left.remove(decision)
        paired.append((firing, decision))
    return paired


async def policy_try(
    *, trial: Trial, policies: Sequence[Policy], webhooks: WebhookCaller | None = None
) -> TrialResult:
    """What `policies` would do, each in its mode. Whose row cannot be read fails as it does in earnest. With
    `webhooks` these are really called."""
    seen = _Seen(webhooks)
    desk = PolicyDesk(webhooks=seen, observer=seen, policies=PolicySet.of(policies))
    exchange = desk.open(
        trial.caller,
        model=trial.model,
        endpoint=trial.request.endpoint,
        opts_in=trial.request.opts_in,
        request_id=_TRIED,
    )
    if exchange is None:
        return TrialResult(effective=trial.request, output=trial.output)
    result = TrialResult()
    steps: list[WindowStep] = []
    outcome = trial.outcome or TerminalOutcome("success", 200)
    try:
        result = replace(result, effective=await exchange.before(trial.request), output=trial.output)
        result = await _generated(exchange, trial, result, steps)
    except HookDenied as denial:
        outcome = TerminalOutcome("denied", denial.status, denial.message)
        result = replace(result, denial=denial, output=None)
    except HookFailed as failure:
        outcome = TerminalOutcome("error", 503, str(failure))
        result = replace(result, failed_policy=failure.policy, output=None)
    exchange.conclude(outcome)
    await desk.drain(TERMINAL_PATIENCE_S)
    return replace(
        result,
        firings=tuple(seen.firings),
        decisions=tuple(exchange.decisions),
        tags=dict(exchange.tags),
        webhook_ids=tuple(dict.fromkeys(seen.webhook_ids)),
        steps=tuple(steps),
    )


async def _generated(
    exchange: RequestExchange, trial: Trial, result: TrialResult, steps: list[WindowStep]
) -> TrialResult:
    """The points of a generation, as far as something was said of them; a stop ends it, as it would."""
    if trial.first_token is not None:
        verdict = await exchange.after_prefill(trial.first_token, choice=0)
        result = replace(result, injections=verdict.injections, stop=verdict.stop)
    if trial.window is not None and result.stop is None:
        # Every rule has fired: whether one does is said by a whole generation, not by one window.
        rules = tuple(range(len(exchange.window_rules)))
        verdict = await exchange.mid_generation(replace(trial.window, rules=rules), choice=0)
        result = replace(result, injections=result.injections + verdict.injections, stop=verdict.stop)
    if trial.answer is not None and result.stop is not StopReason.CONTENT_FILTER:
        stop = await _released(exchange, trial.answer(exchange.held_chars, exchange.seen_chars), steps)
        result = replace(result, stop=result.stop or stop)
    if trial.output is not None:
        released = await exchange.before_output(trial.output)
        result = replace(
            result, output=_edited(trial.output, released.edits), stop=result.stop or released.stop
        )
    return result


async def _released(
    exchange: RequestExchange, window: AnswerWindow, steps: list[WindowStep]
) -> StopReason | None:
    """Until the end, or until a policy ends it."""
    while (seen := window.next()) is not None:
        steps.append(WindowStep(seen, None))
        verdict = await exchange.before_output(seen)
        steps[-1] = WindowStep(seen, window.release(verdict))
        if verdict.stop is not None:
            return verdict.stop
    return None


def _edited(output: OutputText, edits: Sequence[TextEdit]) -> OutputText:
    """From the last edit to the first, so that places hold."""
    content, reasoning, arguments = output.content, output.reasoning, dict(output.arguments)
    for edit in reversed(edits):
        if edit.target is TextTarget.CONTENT:
            content = content[: edit.start] + edit.text + content[edit.end :]
        elif edit.target is TextTarget.REASONING:
            reasoning = reasoning[: edit.start] + edit.text + reasoning[edit.end :]
        elif edit.call is not None:
            text = arguments[edit.call]
            arguments[edit.call] = text[: edit.start] + edit.text + text[edit.end :]
    return replace(output, content=content, reasoning=reasoning, arguments=arguments)


class _Seen:
    """Implements HookObserver and WebhookCaller: writes down who was asked, and has nobody called unless
    there is who calls."""

    def __init__(self, webhooks: WebhookCaller | None) -> None:
        self._webhooks = webhooks
        self.firings: list[Firing] = []
        self.webhook_ids: list[int] = []

    def firing_noted(self, firing: Firing) -> None:
        self.firings.append(firing)

    def terminal_decided(
        self, request_id: str, decisions: Sequence[Decision], tags: Mapping[str, str]
    ) -> None:
        """They are among the exchange's own."""

    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        self.webhook_ids.append(call.webhook_id)
        if self._webhooks is None:
            return WebhookAnswer()
        return await self._webhooks.call(call, timeout_s=timeout_s)
