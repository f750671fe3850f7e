"""What only the site knows of a request that is tried: how its wire is read, and who would send it.

The site names what makes its own in the setting HOOK_TRIAL_DESK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.contracts.view import HookCaller, RequestView

ENDPOINTS = ("chat.completions", "completions", "responses", "messages")


class TrialDesk(Protocol):
    """Both raise what the management API answers as a refusal, naming the field."""

    def view(self, endpoint: str, body: Mapping[str, Any]) -> tuple[RequestView, str]:
        """A body as clients send it to one of ENDPOINTS, and the id of the model that it means."""
        ...

    def caller(self, *, user_id: int, key_id: int | None) -> HookCaller:
        """Somebody who signs in with this key, or without one of which anything is known."""
        ...


def trial_desk() -> TrialDesk:
    found: TrialDesk = import_string(settings.HOOK_TRIAL_DESK)()
    return found
