"""What a webhook is asked, and what it may answer: the border between who evaluates policies
(hooks/exchange) and who speaks HTTP (hooks/webhooks)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hooks.contracts.actions import Action
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import HookCaller, OutputText, RequestView


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookCall:
    """Everything that the policy itself can see at its point. What of it goes out is decided by the rights
    of the webhook, behind this border. `request` is the request as of this point: at BEFORE as it was sent,
    afterwards the effective one. `signals` are there at AFTER_PREFILL and MID_GENERATION, `output` at OUTPUT,
    `outcome` at TERMINAL; `choice` at the points of a generation. `is_observed`: the policy only observes,
    and the answer changes nothing."""

    webhook_id: int
    policy_id: int
    policy: str
    point: HookPoint
    request_id: str
    caller: HookCaller
    request: RequestView
    choice: int | None = None
    signals: FirstTokenSignals | WindowSignals | None = None
    output: OutputText | None = None
    outcome: TerminalOutcome | None = None
    is_observed: bool = False

    def __repr__(self) -> str:
        return f"<WebhookCall {self.webhook_id} at {self.point.value} for {self.policy_id}>"


@dataclass(frozen=True, slots=True)
class WebhookAnswer:
    """`actions` are those that the webhook's rights allow, in its order; none means that it has nothing
    against. `refused` are the names of those that its rights do not allow: they are recorded, and the others
    are applied. No action is a CallWebhook. Whether an action makes sense at the point is for who asked."""

    actions: tuple[Action, ...] = ()
    refused: tuple[str, ...] = ()


class WebhookFailed(Exception):
    """There is no answer: not reached, too late, an open circuit, an answer that is none. `reason` is a few
    words for the record and the metrics, and holds nothing that anybody wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WebhookCaller(Protocol):
    """Calls webhooks. Event loop only."""

    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        """Raises WebhookFailed, also for an id that nobody knows. `timeout_s` is for everything, tries
        included; who asks ends it by cancelling at the latest then, which closes the connection."""
        ...
