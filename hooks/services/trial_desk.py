"""What only the site knows of a request that is tried: how its wire is read, and who would send it.

The site names what makes its own in the setting HOOK_TRIAL_DESK.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from hooks.contracts.view import HookCaller, RequestView
from hooks.contracts.webhooks import WebhookCaller
from hooks.services.trial import AnswerWindow

ENDPOINTS = ("chat.completions", "completions", "responses", "messages")


@dataclass(frozen=True, slots=True, repr=False)
class SaidAnswer:
    """`calls` are names of functions with their arguments as the model writes them. As a stream it comes in
    pieces of `chunk_chars`: thinking, then content, then the calls."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    chunk_chars: int = 4


class TrialDesk(Protocol):
    """The first two raise what the management API answers as a refusal, naming the field."""

    def view(self, endpoint: str, body: Mapping[str, Any]) -> tuple[RequestView, str]:
        """A body as clients send it to one of ENDPOINTS, and the id of the model that it means."""
        ...

    def caller(self, *, user_id: int, key_id: int | None) -> HookCaller:
        """Somebody who signs in with this key, or without one of which anything is known."""
        ...

    def answer(self, said: SaidAnswer, *, held_chars: int | None, seen_chars: int = 0) -> AnswerWindow:
        """An answer on its way out: a stream of which so much is held back, or None: a whole one."""
        ...

    def webhooks(self) -> AbstractAsyncContextManager[WebhookCaller]:
        """Who really calls the webhooks that there are now. It is entered on an event loop."""
        ...


def trial_desk() -> TrialDesk:
    found: TrialDesk = import_string(settings.HOOK_TRIAL_DESK)()
    return found
