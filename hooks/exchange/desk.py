"""Where exchanges are opened, by the policies of this moment."""

from __future__ import annotations

import asyncio
import weakref

from hooks.conditions import RequestTexts
from hooks.contracts.exchange import HookObserver
from hooks.contracts.view import HookCaller, RequestView
from hooks.contracts.webhooks import WebhookCaller
from hooks.exchange.asking import Asking
from hooks.exchange.exchange import RequestExchange
from hooks.exchange.policy_set import PolicySet
from hooks.guard import CANCELLED, TerminalGuard, TerminalTasks


class PolicyDesk:
    """Implements HookDesk. Event loop only, `replace` too."""

    def __init__(
        self, *, webhooks: WebhookCaller, observer: HookObserver, policies: PolicySet | None = None
    ) -> None:
        self._webhooks = webhooks
        self._observer = observer
        self._policies = policies or PolicySet()
        self._tasks = TerminalTasks()
        self._guards: weakref.WeakSet[TerminalGuard] = weakref.WeakSet()

    def __repr__(self) -> str:
        return f"<PolicyDesk {self._policies!r}, {self._tasks!r}>"

    @property
    def policies(self) -> PolicySet:
        return self._policies

    def replace(self, policies: PolicySet) -> None:
        """From now on these. Requests that are open keep theirs."""
        self._policies = policies

    def open(
        self, caller: HookCaller, *, model: str, endpoint: str, opts_in: bool, request_id: str
    ) -> RequestExchange | None:
        groups = self._policies.groups_for(caller, model=model, opts_in=opts_in)
        if not groups:
            return None
        asking = Asking(
            groups=groups,
            caller=caller,
            model=model,
            request_id=request_id,
            texts=RequestTexts(RequestView(endpoint=endpoint, model=model, opts_in=opts_in)),
            webhooks=self._webhooks,
            observer=self._observer,
        )
        exchange = RequestExchange(asking, self._tasks)
        self._guards.add(exchange.guard)
        return exchange

    async def drain(self, timeout_s: float) -> int:
        for guard in list(self._guards):
            guard.conclude(CANCELLED)
        # What was dropped elsewhere gets its turn to start.
        await asyncio.sleep(0)
        return await self._tasks.drain(timeout_s)
