"""JSON to actions and back. Strict: what is not understood is refused, and the refusal names the field."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hooks.action_form.forms import FORM_BY_ACTION, FORM_BY_KIND
from hooks.action_form.value_fields import read_list
from hooks.contracts.actions import ACTIONS_AT, Action, CallWebhook
from hooks.contracts.points import HookPoint
from hooks.contracts.refusals import InvalidField

MAX_ACTIONS = 32
MAX_SHOWN_NAME = 64


def actions_read(
    value: Any, *, point: HookPoint | None, path: str = "actions", allows_webhooks: bool = True
) -> tuple[Action, ...]:
    """A list of at most MAX_ACTIONS. Raises InvalidField, as "actions[0].status"."""
    given = read_list(value, path, max_items=MAX_ACTIONS)
    return tuple(
        action_read(one, point=point, path=f"{path}[{place}]", allows_webhooks=allows_webhooks)
        for place, one in enumerate(given)
    )


def action_read(
    value: Any, *, point: HookPoint | None, path: str = "action", allows_webhooks: bool = True
) -> Action:
    """One action, as `json.loads` gave it, for a policy at `point` (None: whether it makes sense there is not
    asked). Raises InvalidField. `allows_webhooks` is False for what a webhook itself answers."""
    if not isinstance(value, dict):
        raise InvalidField(path, "expected an object")
    kind = value.get("type")
    form = FORM_BY_KIND.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise InvalidField(f"{path}.type", f"expected one of {', '.join(FORM_BY_KIND)}")
    if form.action is CallWebhook and not allows_webhooks:
        raise InvalidField(f"{path}.type", "a webhook's answer calls no webhook")
    if point is not None and form.action not in ACTIONS_AT[point]:
        raise InvalidField(f"{path}.type", f"{form.kind} makes no sense at {point.value}")
    known = {one.name: one for one in form.fields}
    for name in value:
        if name != "type" and name not in known:
            raise InvalidField(f"{path}.{_shown(name)}", "there is no such field")
    given: dict[str, Any] = {}
    for name, one in known.items():
        if name in value:
            given[name] = one.read(value[name], f"{path}.{name}")
        elif one.is_required:
            raise InvalidField(f"{path}.{name}", "it is needed")
    action: Action = form.action(**given)
    form.check(action, point, path)
    return action


def action_written(action: Action) -> dict[str, Any]:
    """What `action_read` reads as the same action: every field, also one with its default."""
    written: dict[str, Any] = {"type": FORM_BY_ACTION[type(action)].kind}
    for one in fields(action):
        value = getattr(action, one.name)
        written[one.name] = [*value] if isinstance(value, tuple) else value
    return {name: _plain(value) for name, value in written.items()}


def action_type(action: Action) -> str:
    """Its name in forms, records and metrics."""
    return FORM_BY_ACTION[type(action)].kind


def _plain(value: Any) -> Any:
    """Members of enumerations as their words."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.value if hasattr(value, "value") else value


def _shown(name: object) -> str:
    """A name from a body as it may stand in an answer: bounded, and free of what terminals obey."""
    text = str(name)[:MAX_SHOWN_NAME].encode("ascii", "backslashreplace").decode("ascii")
    return "".join(character if character.isprintable() else "?" for character in text)
