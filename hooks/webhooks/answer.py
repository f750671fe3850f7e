"""What a webhook answered → actions, held to its rights.

Strict, and all or nothing: an answer of which one part is not understood is not half applied. What is
understood and not allowed is another matter: it is left out, and named.
"""

from __future__ import annotations

import orjson

from hooks.action_form import action_type, actions_read
from hooks.contracts.actions import Action
from hooks.contracts.refusals import InvalidField
from hooks.contracts.webhooks import WebhookAnswer
from hooks.webhooks.failures import CallFailure, FailureReason


def answer_read(body: bytes, allowed: frozenset[type[Action]]) -> WebhookAnswer:
    """`body` is `{"actions": […]}`, or empty for none. Raises CallFailure."""
    if not body:
        return WebhookAnswer()
    try:
        # Refuses what is no UTF-8, NaN, and nesting deeper than 1,024.
        given = orjson.loads(body)
        if not isinstance(given, dict) or given.keys() != {"actions"}:
            raise CallFailure(FailureReason.NOT_UNDERSTOOD)
        actions = actions_read(given["actions"], point=None, allows_webhooks=False)
    except (orjson.JSONDecodeError, InvalidField):
        raise CallFailure(FailureReason.NOT_UNDERSTOOD) from None
    return WebhookAnswer(
        actions=tuple(action for action in actions if type(action) in allowed),
        refused=tuple(action_type(action) for action in actions if type(action) not in allowed),
    )
