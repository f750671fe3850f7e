"""Calls to webhooks, as this site is set up for them."""

from __future__ import annotations

from hooks.webhooks.caller import HttpWebhookCaller
from skippy_site.env import Environment


def make_webhook_caller(environment: Environment) -> HttpWebhookCaller:
    """The one of this process. It calls nobody before it is told of webhooks (`use`); `close` it at the end,
    after the requests that may be waiting for a call."""
    return HttpWebhookCaller(hosts=environment.allowed_webhook_hosts)
