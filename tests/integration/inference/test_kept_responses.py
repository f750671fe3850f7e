"""Stored responses in Postgres: found by their own key alone, in chains, until they are deleted."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from accounts.personal_data import DataSubject
from inference import tasks
from inference.domain.errors import ContextLengthExceeded, NotFound
from inference.domain.kept_answers import KeptText, StoredResponse
from inference.ledger.kept_responses import kept_conversation, kept_response, kept_response_forget
from inference.ledger.kept_texts import generation_text_create
from inference.ledger.personal_data import TextHolder
from inference.models import GenerationText

pytestmark = pytest.mark.django_db(transaction=True)


def keep(previous_id: str = "", *, key_id: int = 1, age: timedelta = timedelta(), text: str = "hi") -> str:
    response_id = f"resp_{uuid.uuid4().hex}"
    stored = StoredResponse(response_id, previous_id, json.dumps({"id": response_id, "output": [text]}))
    kept = KeptText(
        record_id=uuid.uuid4(),
        created_at=timezone.now() - age,
        user_id=5,
        key_id=key_id,
        request=json.dumps({"input": text}),
        answer=stored.object,
        stored=stored,
    )
    generation_text_create(text=kept, retention=timedelta(days=30))
    return response_id


def plain() -> None:
    """A text of another endpoint."""
    kept = KeptText(uuid.uuid4(), timezone.now(), 5, 1, "{}", "an answer")
    generation_text_create(text=kept, retention=timedelta(days=30))


def test_a_response_is_what_was_kept() -> None:
    plain()
    plain()
    made = keep(text='NUL \0 and "quotes"')
    found = kept_response(response_id=made, key_id=1)
    assert json.loads(found.stored.object) == {"id": made, "output": ['NUL \0 and "quotes"']}
    assert json.loads(found.request) == {"input": 'NUL \0 and "quotes"'}
    assert GenerationText.objects.filter(response_id__isnull=True).count() == 2


@pytest.mark.parametrize("wrong", ["", "resp_", "resp_\0" + "a" * 31, "x" * 10_000, "resp_" + "a" * 32, "é"])
def test_what_is_no_id_is_not_found(wrong: str) -> None:
    for call in (kept_response, kept_conversation, kept_response_forget):
        with pytest.raises(NotFound):
            call(response_id=wrong, key_id=1)


def test_another_key_finds_nothing() -> None:
    first = keep()
    second = keep(first)
    for call in (kept_response, kept_conversation, kept_response_forget):
        with pytest.raises(NotFound):
            call(response_id=second, key_id=2)
    foreign = keep(first, key_id=2)
    with pytest.raises(NotFound, match=first):
        kept_conversation(response_id=foreign, key_id=2)


def test_a_conversation_is_in_order() -> None:
    ids = [keep()]
    for _ in range(20):
        ids.append(keep(ids[-1]))
    branch = keep(ids[3])
    assert [kept.stored.id for kept in kept_conversation(response_id=ids[-1], key_id=1)] == ids
    assert [kept.stored.id for kept in kept_conversation(response_id=branch, key_id=1)] == [*ids[:4], branch]


def test_a_conversation_without_its_beginning_cannot_go_on() -> None:
    first = keep()
    second = keep(first)
    third = keep(second)
    kept_response_forget(response_id=first, key_id=1)
    with pytest.raises(NotFound, match=first) as refusal:
        kept_conversation(response_id=third, key_id=1)
    assert refusal.value.param == "previous_response_id"
    assert kept_response(response_id=third, key_id=1).stored.previous_id == second


def test_what_is_over_is_not_found_before_it_is_deleted() -> None:
    old = keep(age=timedelta(days=31))
    later = keep(old)
    with pytest.raises(NotFound):
        kept_response(response_id=old, key_id=1)
    with pytest.raises(NotFound, match=old):
        kept_conversation(response_id=later, key_id=1)
    tasks.kept_answers_forget()
    assert [row.response_id for row in GenerationText.objects.all()] == [later]


def test_conversations_are_bounded() -> None:
    ids = [keep()]
    for _ in range(3):
        ids.append(keep(ids[-1]))
    assert len(kept_conversation(response_id=ids[2], key_id=1, max_links=3)) == 3
    with pytest.raises(ContextLengthExceeded):
        kept_conversation(response_id=ids[3], key_id=1, max_links=3)
    with pytest.raises(ContextLengthExceeded):
        kept_conversation(response_id=ids[3], key_id=1, max_bytes=200)


def test_each_link_is_found_by_an_index() -> None:
    made = keep()
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(
            "EXPLAIN SELECT 1 FROM inference_generationtext WHERE response_id = %s AND key_id = 1", [made]
        )
        plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "text_response_id_unique" in plan


def test_a_persons_responses_are_exported_and_erased() -> None:
    made = keep()
    subject = DataSubject(user_id=5, key_ids=(1,), pseudonym="erased-5")
    (row,) = TextHolder().export_page(subject, None).rows
    assert row["response_id"] == made
    assert TextHolder().erase(subject) == 1
    with pytest.raises(NotFound):
        kept_response(response_id=made, key_id=1)
