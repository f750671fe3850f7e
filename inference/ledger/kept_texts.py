"""What was asked and answered with keys that keep it, and its end after the retention."""

from __future__ import annotations

from datetime import datetime, timedelta

from accounts.keys import without_keys
from inference.domain.kept_answers import KeptText
from inference.ledger.database_calls import in_database
from inference.models import GenerationText


class DatabaseKeptTexts:
    """Implements domain.kept_answers.KeptTexts."""

    def __init__(self, retention: timedelta) -> None:
        self._retention = retention

    async def keep(self, text: KeptText) -> None:
        await in_database(lambda: generation_text_create(text=text, retention=self._retention))


def generation_text_create(*, text: KeptText, retention: timedelta) -> None:
    """Keep one text. NUL characters, which Postgres does not take, become U+FFFD, and of an API key that
    got into it only the visible beginning stays."""
    GenerationText.objects.bulk_create(
        [
            GenerationText(
                record_id=text.record_id,
                created_at=text.created_at,
                expires_at=text.created_at + retention,
                user_id=text.user_id,
                key_id=text.key_id,
                request=without_keys(text.request).replace("\0", "\ufffd"),
                answer=without_keys(text.answer).replace("\0", "\ufffd"),
                response_id=None if text.stored is None else text.stored.id,
                previous_response_id="" if text.stored is None else text.stored.previous_id,
            )
        ],
        ignore_conflicts=True,
    )


def generation_texts_forget(*, now: datetime, max_rows: int = 10_000) -> int:
    """Delete texts whose time is over; the number of those deleted."""
    over = GenerationText.objects.filter(expires_at__lte=now).values("pk")[:max_rows]
    num_deleted: int = GenerationText.objects.filter(pk__in=over).delete()[0]
    return num_deleted
