"""Calls and settings of webhooks for tests."""

from __future__ import annotations

from typing import Any

from hooks.contracts.actions import Deny, Tag
from hooks.contracts.exchange import TerminalOutcome
from hooks.contracts.points import HookPoint
from hooks.contracts.signals import FirstTokenSignals, WindowSignals
from hooks.contracts.view import (
    HookCaller,
    MediaPartView,
    MediaSort,
    MessageView,
    OutputText,
    RequestView,
    TextPart,
)
from hooks.contracts.webhook_settings import WebhookRights, WebhookSettings
from hooks.contracts.webhooks import WebhookCall

SECRET = "a secret of the webhook"
CALLER = HookCaller(
    user_id=1, username="alice-user", key_id=2, key_name="alice-key", team_id=3, team_name="alice-team"
)
REQUEST = RequestView(
    endpoint="chat.completions",
    model="small",
    messages=(
        MessageView("system", (TextPart("system-words"),), place=0),
        MessageView(
            "user",
            (
                TextPart("user-words"),
                MediaPartView(MediaSort.IMAGE, "https://pictures.example/media", 0),
            ),
            is_text=False,
            place=1,
        ),
        MessageView("assistant", (), tool_arguments=('{"a": "argument-words"}',), place=2),
    ),
    parameters={"temperature": 0.5, "n": 2},
    tool_names=("tool-words",),
    fields=frozenset({"messages", "model"}),
    metadata={"metadata-key": "metadata-words"},
    end_user="customer-7",
    is_stream=True,
)
FIRST_TOKEN = FirstTokenSignals(entropy=3.25, margin=0.125)
WINDOW = WindowSignals(40, 16, 2.0, 4.5, 0.5, 0.1, 3, 1, rules=(0, 2))
OUTPUT = OutputText(
    1,
    "output-words",
    "reasoning-words",
    {0: '{"b": "output-arguments"}'},
    tool_names={0: "output-tool"},
    num_released_chars=7,
)
OUTCOME = TerminalOutcome("error", 502, "message-words", ("outcome-words",))


def webhook_call(point: HookPoint = HookPoint.BEFORE, **changes: Any) -> WebhookCall:
    """Of webhook 1, with what there is at its point."""
    of_point: dict[HookPoint, dict[str, Any]] = {
        HookPoint.AFTER_PREFILL: {"signals": FIRST_TOKEN, "choice": 1},
        HookPoint.MID_GENERATION: {"signals": WINDOW, "choice": 1},
        HookPoint.OUTPUT: {"output": OUTPUT, "choice": 1},
        HookPoint.TERMINAL: {"outcome": OUTCOME},
    }
    given: dict[str, Any] = {
        "webhook_id": 1,
        "policy_id": 9,
        "policy": "Review",
        "point": point,
        "request_id": "req_1",
        "caller": CALLER,
        "request": REQUEST,
        **of_point.get(point, {}),
    }
    return WebhookCall(**{**given, **changes})


def webhook_settings(url: str, **changes: Any) -> WebhookSettings:
    """Webhook 1, which may see nothing, deny and tag, and be on this machine."""
    given: dict[str, Any] = {
        "webhook_id": 1,
        "name": "review",
        "url": url,
        "secret": SECRET,
        "rights": WebhookRights(actions=frozenset({Deny, Tag})),
        "deadline_s": 30.0,
        "allows_private": True,
    }
    return WebhookSettings(**{**given, **changes})
