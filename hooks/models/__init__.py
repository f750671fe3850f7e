"""Tables of hooks: columns and constraints only. Rows are written by hooks/services alone."""

from hooks.models.policy import HookPolicy
from hooks.models.replay import HookReplay
from hooks.models.webhook import Webhook

__all__ = ["HookPolicy", "HookReplay", "Webhook"]
