"""Past requests for replays: records, some with their text kept."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from hooks.contracts.actions import Deny
from hooks.models import HookReplay
from hooks.services.replay_slices import replay_finish
from hooks.services.replays import replay_create
from inference.models import GenerationRecord, GenerationText
from tests.integration.hooks.conftest import policy_for
from tests.integration.usage.records import record, save

DENY = (Deny("no"),)


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": text}], **fields}


def past(
    body: Any = None, answer: str = "", *, minutes: float = 5, stored: bool = False, **fields: Any
) -> Any:
    """A record, saved; with `body` its text is kept."""
    at = timezone.now() - timedelta(minutes=minutes)
    made: GenerationRecord = record(
        **{"created_at": at, "finish_reason": "stop", "num_reasoning_tokens": 0, **fields}
    )
    save(made)
    if body is not None:
        GenerationText.objects.create(
            record_id=made.pk,
            created_at=at,
            expires_at=at + timedelta(days=1),
            user_id=made.user_id,
            key_id=made.key_id,
            request=body if isinstance(body, str) else json.dumps(body),
            answer=answer,
            response_id=f"resp_{made.pk.hex}" if stored else None,
            previous_response_id="resp_0" if fields.get("error_code") == "continued" else "",
        )
    return made


def replayed(condition: str = "", *, texts: bool = True, span: str = "day", **members: Any) -> HookReplay:
    """A replay that is done, of a policy that denies."""
    policy = policy_for("p", **{"actions": DENY, "condition": condition, **members})
    row = replay_create(policy=policy, span=span, looks_at_texts=texts, is_draft=True)
    done = replay_finish(replay_id=row.pk, told=lambda _: None)
    found = done.tally
    evaluated = found["num_full"] + found["num_by_condition"]
    away = sum(found["unasked"].values()) + sum(found["not_evaluated"].values())
    assert done.state == "done"
    assert found["num_records"] == done.num_total == evaluated + away
    assert found["num_matched"] + sum(found["failures"].values()) <= evaluated
    return done
