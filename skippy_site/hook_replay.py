"""Past requests as policies are replayed over them: records in pages, and kept texts a few at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from accounts.keys import PREFIX
from accounts.personal_data import pseudonym_of
from hooks.contracts.points import HookPoint
from hooks.contracts.view import HookCaller
from hooks.replaying import PastRequest, PastText, RecordPoint
from inference.ledger.rows import MAX_LABEL_CHARS
from inference.streaming.hook_record import SERVICE_PREFIX, TAG_PREFIX
from skippy_site.past_texts import past_text
from skippy_site.wire_readers import WIRE_READERS

# Of kept texts, read at once; a single one may be longer.
MAX_TEXT_BYTES = 4 << 20
_ENDS_BEFORE = "it was refused before policies were asked"
_UNSERVED = "policies are not asked at its endpoint"
_REPEATED = "it was answered with the answer of an earlier one"
_DENIED_BEFORE = "a policy had refused it before"
_NO_OUTPUT = "nothing was generated that could have gone out"
_CUT_OFF = "its process ended before it"
_CHANGING = frozenset(
    {
        "inject_text",
        "add_system_prompt",
        "set_parameter",
        "clamp_parameter",
        "mask_text",
        "replace_text",
        "consume_media",
    }
)

_COUNT = "SELECT count(*) FROM inference_generationrecord WHERE created_at >= %s AND created_at < %s"
_PAGE = """
SELECT r.*, octet_length(t.request) + octet_length(t.answer) AS num_text_bytes
FROM (
    SELECT id, created_at, user_id, username, key_id, key_name, team_id, team_name, endpoint, model,
        is_stream, end_user, CASE WHEN metadata <> '{}'::jsonb THEN metadata::text END AS metadata,
        outcome, status, finish_reason, error_code, num_output_tokens, num_reasoning_tokens,
        CASE WHEN hook_decisions <> '[]'::jsonb THEN hook_decisions::text END AS decisions
    FROM inference_generationrecord
    WHERE created_at >= %(start)s AND created_at < %(end)s
        AND (created_at, id) > (%(after_at)s, %(after_id)s)
    ORDER BY created_at, id LIMIT %(limit)s
) AS r
LEFT JOIN inference_generationtext AS t ON t.record_id = r.id AND t.expires_at > now()
ORDER BY r.created_at, r.id
"""
_TEXTS = """
SELECT record_id, request, answer, response_id IS NOT NULL, previous_response_id <> ''
FROM inference_generationtext WHERE record_id = ANY(%s)
"""
_FIRST = UUID(int=0)


class Row(NamedTuple):
    """What `_PAGE` reads of one record."""

    id: UUID
    created_at: datetime
    user_id: int
    username: str
    key_id: int
    key_name: str
    team_id: int | None
    team_name: str
    endpoint: str
    model: str
    is_stream: bool
    end_user: str
    metadata: str | None
    outcome: str
    status: int
    finish_reason: str
    error_code: str
    num_output_tokens: int
    num_reasoning_tokens: int
    decisions: str | None
    num_text_bytes: int | None


class SiteReplaySource:
    """Implements hooks.services.replay_source.ReplaySource."""

    def count(self, start_at: datetime, end_at: datetime) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_COUNT, [start_at, end_at])
            return int(cursor.fetchone()[0])

    def page(
        self,
        start_at: datetime,
        end_at: datetime,
        *,
        after: RecordPoint | None,
        limit: int,
        with_texts: bool,
    ) -> Iterator[PastRequest]:
        place = after or RecordPoint(start_at, _FIRST)
        with connection.cursor() as cursor:
            cursor.execute(
                _PAGE,
                {
                    # Behind a place nothing before it is looked at: the index begins there.
                    "start": max(start_at, place.created_at),
                    "end": end_at,
                    "after_at": place.created_at,
                    "after_id": place.record_id,
                    "limit": limit,
                },
            )
            rows = [Row(*row) for row in cursor.fetchall()]
        for some in _by_size(rows):
            texts = _texts(some) if with_texts else {}
            for row in some:
                is_closed = not with_texts and row.num_text_bytes is not None
                yield past_request(row, texts.get(row.id), is_text_closed=is_closed)


def past_request(row: Row, text: PastText | None, *, is_text_closed: bool) -> PastRequest:
    decisions: list[dict[str, Any]] = [] if row.decisions is None else json.loads(row.decisions)
    is_erased = not row.key_name and row.username == pseudonym_of(row.user_id)
    return PastRequest(
        record_id=row.id,
        created_at=row.created_at,
        caller=HookCaller(row.user_id, row.username, row.key_id, row.key_name, row.team_id, row.team_name),
        model=row.model,
        endpoint=row.endpoint,
        is_stream=row.is_stream,
        end_user=row.end_user if not is_erased and _is_whole(row.end_user) else None,
        metadata=None if is_erased else _metadata(row.metadata),
        outcome_kind=_outcome_kind(row, decisions),
        outcome_status=row.status,
        has_thinking=row.num_reasoning_tokens > 0,
        is_erased=is_erased,
        is_changed=any(_has_changed(one) for one in decisions),
        is_text_closed=is_text_closed,
        unasked=_unasked(row, decisions),
        text=text,
    )


def _by_size(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """In order, so that the texts of each piece fit into memory."""
    piece: list[Row] = []
    num_bytes = 0
    for row in rows:
        size = row.num_text_bytes or 0
        if piece and num_bytes + size > MAX_TEXT_BYTES:
            yield piece
            piece, num_bytes = [], 0
        piece.append(row)
        num_bytes += size
    if piece:
        yield piece


def _texts(rows: Sequence[Row]) -> dict[UUID, PastText]:
    by_id = {row.id: row for row in rows if row.num_text_bytes is not None}
    if not by_id:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_TEXTS, [list(by_id)])
        return {
            record_id: past_text(
                request,
                answer,
                endpoint=by_id[record_id].endpoint,
                finish_reason=by_id[record_id].finish_reason,
                is_stored=is_stored,
                is_continued=is_continued,
            )
            for record_id, request, answer, is_stored, is_continued in cursor.fetchall()
        }


def _is_whole(text: str) -> bool:
    return len(text) < MAX_LABEL_CHARS and "\ufffd" not in text and PREFIX not in text


def _metadata(written: str | None) -> dict[str, str] | None:
    """As it was sent, without the tags that policies gave and what the service says; what a client sends
    under their names is not recorded."""
    if written is None:
        return {}
    own = (TAG_PREFIX, SERVICE_PREFIX)
    found = {name: value for name, value in json.loads(written).items() if not name.startswith(own)}
    return found if all(_is_whole(one) for pair in found.items() for one in pair) else None


def _outcome_kind(row: Row, decisions: list[dict[str, Any]]) -> str:
    """As inference.streaming.hook_record.terminal_outcome, by what is left of it."""
    if row.outcome == "completed":
        return "stream_completed" if row.is_stream else "success"
    if row.outcome in ("cancelled", "client_disconnect"):
        return "cancelled"
    is_denied = row.error_code == "permission_denied" and any(_has_denied(one) for one in decisions)
    return "denied" if is_denied else "error"


def _unasked(row: Row, decisions: list[dict[str, Any]]) -> dict[HookPoint, str]:
    everywhere = ""
    if row.endpoint not in WIRE_READERS:
        everywhere = _UNSERVED
    elif not row.model or row.error_code in ("model_not_found", "idempotency_key_in_use"):
        everywhere = _ENDS_BEFORE
    elif row.error_code == "maintenance" and not decisions:
        # Newcomers. Of those who waited when it began policies were asked, which shows where one decided.
        everywhere = _ENDS_BEFORE
    elif row.outcome == "completed" and not row.finish_reason:
        everywhere = _REPEATED
    if everywhere:
        return dict.fromkeys(HookPoint, everywhere)
    unasked: dict[HookPoint, str] = {}
    if any(one.get("point") == HookPoint.BEFORE and _has_refused(one) for one in decisions):
        unasked[HookPoint.EFFECTIVE] = _DENIED_BEFORE
    is_whole_answer = row.outcome == "completed" or any(
        one.get("point") == HookPoint.OUTPUT and _has_refused(one) for one in decisions
    )
    if not row.num_output_tokens or not (row.is_stream or is_whole_answer):
        unasked[HookPoint.OUTPUT] = _NO_OUTPUT
    if row.outcome == "interrupted":
        unasked[HookPoint.TERMINAL] = _CUT_OFF
    return unasked


def _has_changed(decision: dict[str, Any]) -> bool:
    return (
        decision.get("point") == HookPoint.BEFORE
        and decision.get("result") in ("applied", "refused")
        and not _CHANGING.isdisjoint(decision.get("actions", ()))
    )


def _has_denied(decision: dict[str, Any]) -> bool:
    return decision.get("result") == "applied" and "deny" in decision.get("actions", ())


def _has_refused(decision: dict[str, Any]) -> bool:
    return _has_denied(decision) or decision.get("result") == "failed_closed"
