"""Of all requests of one name one runs, whichever process they come to and whatever dies."""

from __future__ import annotations

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from inference import tasks
from inference.domain.errors import Conflict, InvalidRequest
from inference.domain.kept_answers import KeptText, NamedRequest, SentAnswer
from inference.ledger.kept_texts import generation_text_create
from inference.ledger.named_requests import (
    named_request_begin,
    named_request_finish,
    named_requests_abandon,
)
from inference.models import GenerationText, IdempotentRequest
from tests.integration.inference.test_partitions import row

pytestmark = pytest.mark.django_db(transaction=True)
ANSWER = SentAnswer(200, "application/json", b'{"a":"\x00\xff"}')


def named(name: str = "n", body: str = "b", **changes) -> NamedRequest:
    made = NamedRequest(
        key_id=1,
        name_digest=hashlib.sha256(name.encode()).digest(),
        body_digest=hashlib.sha256(body.encode()).digest(),
        request_id=str(uuid.uuid4()),
        record_id=uuid.uuid4(),
        created_at=timezone.now(),
        lease_s=60.0,
    )
    return replace(made, **changes)


def test_the_first_runs_and_its_kept_answer_is_given_again() -> None:
    first = named()
    assert named_request_begin(request=first) is None
    with pytest.raises(Conflict, match=first.request_id) as running:
        named_request_begin(request=named())
    assert running.value.retry_after_s

    named_request_finish(request=first, answer=ANSWER)

    assert named_request_begin(request=named()) == ANSWER
    with pytest.raises(InvalidRequest):
        named_request_begin(request=named(body="other"))


def test_an_answer_that_was_not_kept_names_the_first_request() -> None:
    first = named()
    named_request_begin(request=first)
    named_request_finish(request=first, answer=None)

    with pytest.raises(Conflict, match=first.request_id) as used:
        named_request_begin(request=named())
    assert not used.value.should_retry and used.value.code == "idempotency_key_used"


def test_names_of_other_keys_are_other_names() -> None:
    assert named_request_begin(request=named()) is None
    assert named_request_begin(request=named(key_id=2)) is None
    assert named_request_begin(request=named("m")) is None


def test_a_name_is_given_back_by_what_did_not_complete() -> None:
    first = named()
    named_request_begin(request=first)
    named_requests_abandon(record_ids=[first.record_id])

    assert named_request_begin(request=named(body="other")) is None


def test_a_finished_name_is_not_given_back() -> None:
    first = named()
    named_request_begin(request=first)
    named_request_finish(request=first, answer=ANSWER)
    named_requests_abandon(record_ids=[first.record_id])

    assert named_request_begin(request=named()) == ANSWER


def test_a_name_is_forgotten_after_a_day() -> None:
    first = named(created_at=timezone.now() - timedelta(hours=24, seconds=1))
    named_request_begin(request=first)
    named_request_finish(request=first, answer=ANSWER)
    assert named_request_begin(request=named(body="other")) is None

    old = named("old", created_at=timezone.now() - timedelta(hours=25))
    named_request_begin(request=old)
    tasks.kept_answers_forget()
    assert IdempotentRequest.objects.count() == 1


def test_a_request_whose_process_died_is_run_again_once_that_is_known() -> None:
    first = named()
    named_request_begin(request=first)
    with pytest.raises(Conflict):
        named_request_begin(request=named())

    row(first.created_at, id=first.record_id, outcome="interrupted").save(force_insert=True)

    assert named_request_begin(request=named()) is None


def test_a_request_that_completed_and_could_not_say_so_is_not_run_again() -> None:
    first = named(lease_s=-1.0)
    named_request_begin(request=first)
    row(first.created_at, id=first.record_id, outcome="completed").save(force_insert=True)

    for _ in range(2):
        with pytest.raises(Conflict, match="was answered"):
            named_request_begin(request=named())


def test_a_request_that_left_no_record_is_taken_for_dead_after_its_lease() -> None:
    named_request_begin(request=named(lease_s=-1.0))

    assert named_request_begin(request=named()) is None


def test_of_many_at_once_one_runs() -> None:
    def begin(number: int) -> str:
        try:
            return "runs" if named_request_begin(request=named()) is None else "answered"
        except Conflict:
            return "waits"
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(begin, range(32)))

    assert sorted(set(found)) == ["runs", "waits"] and found.count("runs") == 1


def test_names_and_bodies_are_not_in_the_table() -> None:
    named_request_begin(request=named("a telling name", "a telling body"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT inference_idempotentrequest::text FROM inference_idempotentrequest")
        ((text,),) = cursor.fetchall()
    assert "telling" not in text


def test_texts_are_kept_once_and_until_their_time_is_over() -> None:
    now = timezone.now()
    for age, retention in ((timedelta(0), timedelta(days=1)), (timedelta(days=2), timedelta(days=1))):
        text = KeptText(uuid.uuid4(), now - age, 1, 2, '{"a": "\0"}', "b\0")
        for _ in range(2):
            generation_text_create(text=text, retention=retention)
    assert GenerationText.objects.count() == 2

    tasks.kept_answers_forget()

    (left,) = GenerationText.objects.all()
    assert (left.request, left.answer) == ('{"a": "\ufffd"}', "b\ufffd")
