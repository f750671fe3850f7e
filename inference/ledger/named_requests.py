"""Requests named by Idempotency-Key: one row for each name of each key, which all processes share.

Whoever inserts the row runs; everybody else finds it. A row whose request died is taken over: its end is
looked up among the records first, since a request can have completed while its row could not be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from inference.domain.errors import Conflict, InvalidRequest
from inference.domain.kept_answers import NamedRequest, SentAnswer
from inference.domain.outcomes import Outcome
from inference.ledger.database_calls import in_database
from inference.models import GenerationRecord, IdempotentRequest

REMEMBERED_FOR = timedelta(hours=24)
RETRY_AFTER_S = 2


class DatabaseNamedRequests:
    """Implements domain.kept_answers.NamedRequests."""

    async def begin(self, request: NamedRequest) -> SentAnswer | None:
        return await in_database(lambda: named_request_begin(request=request))

    async def finish(self, request: NamedRequest, answer: SentAnswer | None) -> None:
        await in_database(lambda: named_request_finish(request=request, answer=answer))

    async def abandon(self, request: NamedRequest) -> None:
        await in_database(lambda: named_requests_abandon(record_ids=[request.record_id]))


def named_request_begin(*, request: NamedRequest) -> SentAnswer | None:
    """See NamedRequests.begin."""
    while True:
        IdempotentRequest.objects.bulk_create([_row(request)], ignore_conflicts=True)
        with transaction.atomic():
            row = (
                IdempotentRequest.objects.select_for_update()
                .filter(key_id=request.key_id, name_digest=request.name_digest)
                .first()
            )
            if row is None:
                continue  # the first one has just given its name back
            if row.record_id == request.record_id:
                return None
            if row.expires_at <= request.created_at or _is_dead(row, now=timezone.now()):
                row.delete()
                continue
        return _answer_of(row, request)


def named_request_finish(*, request: NamedRequest, answer: SentAnswer | None) -> None:
    """See NamedRequests.finish."""
    IdempotentRequest.objects.filter(record_id=request.record_id).update(
        finished_at=timezone.now(),
        status=None if answer is None else answer.status,
        content_type="" if answer is None else answer.content_type,
        answer=None if answer is None else answer.body,
    )


def named_requests_abandon(*, record_ids: Sequence[UUID]) -> None:
    """Give back the names of requests that did not complete."""
    IdempotentRequest.objects.filter(record_id__in=record_ids, finished_at__isnull=True).delete()


def named_requests_forget(*, now: datetime, max_rows: int = 10_000) -> int:
    """Delete names that are over, and what was kept of their answers; the number of those deleted."""
    over = IdempotentRequest.objects.filter(expires_at__lte=now).values("pk")[:max_rows]
    return IdempotentRequest.objects.filter(pk__in=over).delete()[0]


def _row(request: NamedRequest) -> IdempotentRequest:
    return IdempotentRequest(
        key_id=request.key_id,
        name_digest=request.name_digest,
        body_digest=request.body_digest,
        request_id=request.request_id,
        record_id=request.record_id,
        created_at=request.created_at,
        expires_at=request.created_at + REMEMBERED_FOR,
        runs_until=request.created_at + timedelta(seconds=request.lease_s),
    )


def _is_dead(row: IdempotentRequest, *, now: datetime) -> bool:
    """Whether its request came to nothing. One that completed is finished here, without its answer."""
    if row.finished_at is not None:
        return False
    record = GenerationRecord.objects.filter(id=row.record_id, created_at=row.created_at).first()
    if record is None:
        return row.runs_until <= now
    if record.outcome != Outcome.COMPLETED.value:
        return True
    row.finished_at = record.finished_at
    row.save(update_fields=["finished_at"])
    return False


def _answer_of(row: IdempotentRequest, request: NamedRequest) -> SentAnswer:
    if bytes(row.body_digest) != request.body_digest:
        raise InvalidRequest(
            "This Idempotency-Key was used for another request. Use a new key for each request.",
            code="idempotency_key_reused",
        )
    if row.finished_at is None:
        raise Conflict(
            f"Request {row.request_id} of the same Idempotency-Key is still running.",
            retry_after_s=RETRY_AFTER_S,
        )
    if row.answer is None:
        raise Conflict(
            f"Request {row.request_id} of the same Idempotency-Key was answered; its answer was not kept.",
            code="idempotency_key_used",
            should_retry=False,
        )
    return SentAnswer(row.status or 200, row.content_type, bytes(row.answer))
