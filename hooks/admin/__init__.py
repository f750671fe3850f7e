"""Policies and webhooks in Django's admin."""

from hooks.admin.policies import HookPolicyAdmin
from hooks.admin.webhooks import WebhookAdmin

__all__ = ["HookPolicyAdmin", "WebhookAdmin"]
