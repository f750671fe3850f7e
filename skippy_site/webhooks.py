"""Calls to webhooks, as this site is set up for them."""

from __future__ import annotations

import ssl

from hooks.webhooks.caller import HttpWebhookCaller
from skippy_site.env import Environment


def make_webhook_caller(environment: Environment) -> HttpWebhookCaller:
    """The one of this process. It calls nobody before it is told of webhooks (`use`); `close` it at the end,
    after the requests that may be waiting for a call."""
    # Reads all certificates of the system, for which no stream should have to wait later.
    trust = ssl.create_default_context()
    return HttpWebhookCaller(hosts=environment.allowed_webhook_hosts, trust=trust)
