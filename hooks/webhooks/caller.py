"""All webhooks of a process: by id, replaced while it runs, and closed with it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable

from hooks.contracts.webhook_settings import WebhookSettings
from hooks.contracts.webhooks import WebhookAnswer, WebhookCall, WebhookFailed
from hooks.outbound.addresses import AddressRefused, AllowedHosts, WebAddress, web_address
from hooks.outbound.names import NameResolver
from hooks.webhooks.breaker import BreakerRules
from hooks.webhooks.clock import Clock, SystemClock
from hooks.webhooks.connection import Resolve
from hooks.webhooks.failures import FailureReason
from hooks.webhooks.http_client import HttpClient
from hooks.webhooks.statistics import WebhookStatistics
from hooks.webhooks.webhook import Webhook

_log = logging.getLogger(__name__)


def webhook_address(url: str, *, hosts: AllowedHosts, allows_private: bool) -> WebAddress:
    """A webhook's URL, checked as far as that can be done without asking the network: when it is saved, and
    again before it is used, since the list may be another one by then. `hosts` empty: any host.

    Raises AddressRefused, whose message begins with "its". Plain http would carry what users write through
    the open internet, so it is for networks of ours.
    """
    address = hosts.check(url) if hosts else web_address(url)
    if address.scheme != "https" and not allows_private:
        raise AddressRefused("its URL is not one of https, as those outside of private networks must be")
    return address


class HttpWebhookCaller:
    """Implements hooks.contracts.webhooks.WebhookCaller. Event loop only.

    `hosts` are those that may be called, all if empty; `trust` says whose certificates are believed, by
    default those that the system believes; `resolve` looks up names.
    """

    def __init__(
        self,
        *,
        hosts: AllowedHosts | None = None,
        rules: BreakerRules | None = None,
        clock: Clock | None = None,
        resolve: Resolve | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._hosts = hosts or AllowedHosts()
        self._rules = rules or BreakerRules()
        self._clock = clock or SystemClock()
        self._resolve = resolve or NameResolver().addresses
        self._trust = trust
        self._webhooks: dict[int, Webhook] = {}
        self._refused: dict[int, WebhookSettings] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def use(self, webhooks: Iterable[WebhookSettings]) -> None:
        """These are all webhooks from now on. One that did not change keeps its connections, its circuit and
        its counts; calls that are out to one that did end as they began."""
        if self._is_closed:
            return
        wanted = {settings.webhook_id: settings for settings in webhooks}
        for webhook_id, webhook in list(self._webhooks.items()):
            if wanted.get(webhook_id) != webhook.settings:
                del self._webhooks[webhook_id]
                task = asyncio.get_running_loop().create_task(webhook.retire())
                self._retiring.add(task)
                task.add_done_callback(self._retiring.discard)
        refused, self._refused = self._refused, {}
        for webhook_id, settings in wanted.items():
            if webhook_id in self._webhooks:
                continue
            try:
                self._webhooks[webhook_id] = self._made(settings)
            except AddressRefused as problem:
                self._refused[webhook_id] = settings
                if refused.get(webhook_id) != settings:
                    _log.error("webhook %r is not called: %s", settings.name, problem)

    def _made(self, settings: WebhookSettings) -> Webhook:
        address = webhook_address(settings.url, hosts=self._hosts, allows_private=settings.allows_private)
        if address.scheme == "https" and self._trust is None:
            # Reads the system's certificates, which takes longer than a call; so once, and not for a call.
            self._trust = ssl.create_default_context()
        client = HttpClient(
            address,
            resolve=self._resolve,
            trust=self._trust,
            allows_private=settings.allows_private,
            clock=self._clock,
        )
        return Webhook(settings, client, rules=self._rules, clock=self._clock)

    async def call(self, call: WebhookCall, *, timeout_s: float) -> WebhookAnswer:
        """Raises WebhookFailed, and nothing else. Cancelling it closes its connection."""
        webhook = self._webhooks.get(call.webhook_id)
        if webhook is None:
            is_refused = call.webhook_id in self._refused
            reason = FailureReason.NOT_ALLOWED if is_refused else FailureReason.UNKNOWN
            raise WebhookFailed((FailureReason.STOPPED if self._is_closed else reason).value)
        return await webhook.ask(call, timeout_s=timeout_s)

    def statistics(self) -> tuple[WebhookStatistics, ...]:
        """Of each webhook that can be called, by id."""
        return tuple(webhook.statistics() for _, webhook in sorted(self._webhooks.items()))

    async def close(self) -> None:
        """No call is taken any more; connections close as soon as the calls that are out have ended."""
        self._is_closed = True
        webhooks, self._webhooks = list(self._webhooks.values()), {}
        for webhook in webhooks:
            await webhook.retire()
        await asyncio.gather(*self._retiring)

    def check_integrity(self) -> None:
        for webhook_id, webhook in self._webhooks.items():
            assert webhook.settings.webhook_id == webhook_id
            webhook.check_integrity()

    def __repr__(self) -> str:
        return f"<HttpWebhookCaller, {len(self._webhooks)} webhooks>"
