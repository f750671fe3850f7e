"""Responses that were stored, with what they went on from: the kept texts that have an id of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from inference.domain.errors import ContextLengthExceeded, NotFound
from inference.domain.kept_answers import KeptResponse, StoredResponse
from inference.ledger.database_calls import in_database
from inference.models import GenerationText

# More than any context has room for; each link is a row.
MAX_LINKS = 1000
_PARAM = "previous_response_id"
# Only what could be an id of ours is looked for: the caller chose it, and Postgres takes no NUL.
_ID = re.compile(r"resp_[0-9a-f]{32}", re.ASCII)
MAX_CONVERSATION_BYTES = 32 * 1024 * 1024

# The sum of bytes is taken before the texts are read: a chain of large bodies ends there.
_CHAIN = """
WITH RECURSIVE chain AS (
    SELECT record_id, response_id, previous_response_id, 1 AS link,
           octet_length(request) + octet_length(answer) AS num_bytes
    FROM inference_generationtext
    WHERE response_id = %(response_id)s AND key_id = %(key_id)s AND expires_at > %(now)s
    UNION ALL
    SELECT earlier.record_id, earlier.response_id, earlier.previous_response_id, chain.link + 1,
           chain.num_bytes + octet_length(earlier.request) + octet_length(earlier.answer)
    FROM chain JOIN inference_generationtext earlier
        ON earlier.response_id = chain.previous_response_id
        AND earlier.key_id = %(key_id)s AND earlier.expires_at > %(now)s
    WHERE chain.previous_response_id <> '' AND chain.link <= %(max_links)s
        AND chain.num_bytes <= %(max_bytes)s
)
SELECT record_id, previous_response_id, num_bytes FROM chain ORDER BY link DESC
"""


class DatabaseKeptResponses:
    """Implements domain.kept_answers.KeptResponses."""

    async def conversation(self, *, response_id: str, key_id: int) -> Sequence[KeptResponse]:
        return await in_database(lambda: kept_conversation(response_id=response_id, key_id=key_id))

    async def response(self, *, response_id: str, key_id: int) -> KeptResponse:
        return await in_database(lambda: kept_response(response_id=response_id, key_id=key_id))

    async def forget(self, *, response_id: str, key_id: int) -> None:
        await in_database(lambda: kept_response_forget(response_id=response_id, key_id=key_id))


def kept_response(*, response_id: str, key_id: int) -> KeptResponse:
    """Raises NotFound."""
    _check_id(response_id)
    row = _living(response_id, key_id).first()
    if row is None:
        raise not_found(response_id)
    return _kept(row)


def kept_conversation(
    *,
    response_id: str,
    key_id: int,
    max_links: int = MAX_LINKS,
    max_bytes: int = MAX_CONVERSATION_BYTES,
) -> Sequence[KeptResponse]:
    """See KeptResponses.conversation."""
    _check_id(response_id, param=_PARAM)
    parameters = {
        "response_id": response_id,
        "key_id": key_id,
        "now": timezone.now(),
        "max_links": max_links,
        "max_bytes": max_bytes,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CHAIN, parameters)
        links = cursor.fetchall()
    if not links:
        raise not_found(response_id, param=_PARAM)
    _, missing_id, num_bytes = links[0]
    if len(links) > max_links or num_bytes > max_bytes:
        raise ContextLengthExceeded(
            "The conversation that 'previous_response_id' ends is too long to go on from.",
            param=_PARAM,
        )
    if missing_id:
        raise not_found(missing_id, param=_PARAM)
    rows = GenerationText.objects.in_bulk([record_id for record_id, _, _ in links])
    kept = [_kept(rows[record_id]) for record_id, _, _ in links if record_id in rows]
    if len(kept) < len(links):
        raise not_found(response_id, param=_PARAM)  # one was deleted meanwhile
    return kept


def kept_response_forget(*, response_id: str, key_id: int) -> None:
    """Raises NotFound."""
    _check_id(response_id)
    if not _living(response_id, key_id).delete()[0]:
        raise not_found(response_id)


def not_found(response_id: str, *, param: str | None = None) -> NotFound:
    """One answer for what never was, what is gone, and what is another key's."""
    shown = "".join(c if c.isalnum() or c in "_-" else "?" for c in response_id[:64])
    return NotFound(f"Response with id '{shown}' not found.", param=param)


def _check_id(response_id: str, *, param: str | None = None) -> None:
    if not _ID.fullmatch(response_id):
        raise not_found(response_id, param=param)


def _living(response_id: str, key_id: int) -> Any:
    return GenerationText.objects.filter(
        response_id=response_id, key_id=key_id, expires_at__gt=timezone.now()
    )


def _kept(row: GenerationText) -> KeptResponse:
    return KeptResponse(
        StoredResponse(row.response_id or "", row.previous_response_id, row.answer), row.request
    )
