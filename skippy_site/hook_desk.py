"""The policies of this process: from their rows to where requests are asked about them."""

from __future__ import annotations

import asyncio
import logging

from hooks.contracts.exchange import HookObserver
from hooks.contracts.snapshots import UNREAD, PolicySnapshot, PolicySource
from hooks.exchange import PolicyDesk, PolicySet
from hooks.webhooks.caller import HttpWebhookCaller

_log = logging.getLogger(__name__)

# What policies at the end of requests may still take when the service stops.
LAST_WORD_S = 5.0


class PolicyFeed:
    """Brings what the `source` reads to the `desk` and to its webhooks. Event loop only: `start()` once, then
    `stop()` when no request is open any more.

    Conditions are compiled on a thread, and the newest snapshot wins: what came in between is passed over.
    """

    def __init__(self, source: PolicySource, webhooks: HttpWebhookCaller, observer: HookObserver) -> None:
        self._source = source
        self._webhooks = webhooks
        # Until rows are read nobody knows what has to be kept.
        policies = PolicySet.of(UNREAD.policies)
        self.desk = PolicyDesk(webhooks=webhooks, observer=observer, policies=policies)
        self._next: PolicySnapshot | None = None
        self._taking: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PolicyFeed to {self.desk!r}>"

    async def start(self) -> None:
        """What the source has holds when this returns."""
        self._source.subscribe(self._told)
        await self.settled()

    async def settled(self) -> None:
        """Wait until what was told so far holds."""
        while self._taking is not None:
            await asyncio.wait([self._taking])

    async def stop(self) -> None:
        await self.settled()
        num_cut = await self.desk.drain(LAST_WORD_S)
        if num_cut:
            _log.warning("policies at the end of %d requests took too long for the stop", num_cut)
        await self._webhooks.close()

    def _told(self, snapshot: PolicySnapshot) -> None:
        self._next = snapshot
        if self._taking is None:
            self._taking = asyncio.create_task(self._take())

    async def _take(self) -> None:
        try:
            while self._next is not None:
                snapshot, self._next = self._next, None
                policies = await asyncio.to_thread(PolicySet.of, snapshot.policies)
                # First: a policy that calls one finds it.
                self._webhooks.use(snapshot.webhooks.values())
                self.desk.replace(policies)
        except Exception as problem:
            # The policies before these hold.
            _log.error("policies could not be taken over: %s", type(problem).__name__)
        finally:
            self._taking = None
