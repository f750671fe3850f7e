"""Export and erasure of one user: all of it, by API and by command, and nothing of anybody else."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.test import AsyncClient
from django.utils import timezone

from accounts import services
from accounts.models import AdministrativeChange
from accounts.personal_data import data_subject
from accounts.scopes import Scope
from inference.ledger.personal_data import RecordHolder
from inference.models import Alert, GenerationRecord, GenerationText, IdempotentRequest, StoredEvent
from tests.integration.accounts.test_secrecy import everything_stored
from tests.integration.management.conftest import error_of

pytestmark = pytest.mark.django_db

MARK = "Zoë-Ångström"
PROMPT = "a prompt that nobody else may read"


def record_of(user: User, key_id: int, created_at: datetime) -> GenerationRecord:
    return GenerationRecord.objects.create(
        id=uuid.uuid4(),
        created_at=created_at,
        finished_at=created_at,
        request_id=f"request {user.pk}",
        user_id=user.pk,
        username=user.username,
        key_id=key_id,
        key_name=f"key of {user.username}",
        endpoint="chat",
        is_stream=False,
        priority="normal",
        was_session_ignored=False,
        end_user=f"end user of {user.username}",
        metadata={"who": user.username},
        max_tokens=5,
        num_input_tokens=1,
        num_cached_tokens=0,
        num_output_tokens=2,
        num_reasoning_tokens=0,
        num_injected_tokens=0,
        total_s=1.0,
        outcome="completed",
        status=200,
    )


def person(name: str, num_records: int = 3) -> User:
    """Somebody of whom there is something in every table."""
    user = services.user_ensure(username=name)
    user.email, user.first_name, user.last_name = f"{name}@example.org", name, name
    user.save()
    row, _ = services.api_key_create(user=user, name=f"laptop of {name}")
    services.user_team_set(user=user, team=None)
    now = timezone.now()
    for number in range(num_records):
        record = record_of(user, row.pk, now - timedelta(seconds=number // 2))
        GenerationText.objects.create(
            record_id=record.pk,
            created_at=now,
            expires_at=now,
            user_id=user.pk,
            key_id=row.pk,
            request=f"{PROMPT} {name}",
            answer="x",
        )
    IdempotentRequest.objects.create(
        key_id=row.pk,
        name_digest=b"x" * 32,
        body_digest=b"y" * 32,
        request_id="r",
        record_id=uuid.uuid4(),
        created_at=now,
        expires_at=now,
        runs_until=now,
        answer=f"answer to {name}".encode(),
    )
    StoredEvent.objects.create(
        at=now, name="e", request_id=f"request {user.pk}", elapsed_s=1.0, attributes={"model": name}
    )
    for subject in (f"user {user.pk}, day of x", f"key {row.pk}, day of x"):
        Alert.objects.create(kind="budget", subject=subject, message=f"{name} has used it", opened_at=now)
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(user.pk),
        object_repr=name,
        action_flag=CHANGE,
        change_message=name,
    )
    return user


def exported(user: User) -> dict:
    out = StringIO()
    call_command("user_export", user.username, stdout=out)
    return json.loads(out.getvalue())


class TestExport:
    def test_all_of_one_and_nothing_of_another(self) -> None:
        zoe, other = person(MARK, num_records=5), person("other")
        found = exported(zoe)
        assert found["user_id"] == zoe.pk
        assert [row["username"] for row in found["account"]] == [MARK]
        assert [row["name"] for row in found["keys"]] == [f"laptop of {MARK}"]
        assert len(found["records"]) == len({row["id"] for row in found["records"]}) == 5
        assert [row["request"] for row in found["texts"]] == [f"{PROMPT} {MARK}"] * 5
        assert len(found["idempotent_requests"]) == 1
        assert [row["attributes"] for row in found["events"]] == [{"model": MARK}]
        assert [row["message"] for row in found["alerts"]] == [f"{MARK} has used it"] * 2
        assert found["history"]
        text = json.dumps(found)
        assert other.username not in text
        assert zoe.password not in text
        assert zoe.api_keys.get().digest not in text

    def test_it_leaves_a_line_of_history_and_needs_a_user(self) -> None:
        zoe = person(MARK)
        exported(zoe)
        assert AdministrativeChange.objects.first().action == "exported"
        with pytest.raises(CommandError, match="no such user"):
            call_command("user_export", "nobody")

    def test_records_come_in_pages_each_once_also_of_one_instant(self) -> None:
        zoe = person(MARK, num_records=7)
        holder, subject, after, seen = RecordHolder(max_export_rows=2), data_subject(zoe), None, []
        while True:
            page = holder.export_page(subject, after)
            assert len(page.rows) <= 2
            seen += [row["id"] for row in page.rows]
            if (after := page.next) is None:
                break
        assert sorted(seen) == sorted(GenerationRecord.objects.values_list("pk", flat=True))

    def test_somebody_of_whom_there_is_nothing(self) -> None:
        user = User.objects.create(username="empty")
        found = exported(user)
        assert (found["records"], found["texts"], found["keys"]) == ([], [], [])


@pytest.mark.django_db(transaction=True)
async def test_the_api_streams_the_same_export(program) -> None:
    from asgiref.sync import sync_to_async

    zoe = await sync_to_async(person)(MARK)
    caller = await sync_to_async(program)("manager", frozenset({Scope.KEYS, Scope.USAGE_ALL}))
    response = await AsyncClient().get(
        f"/api/users/{zoe.pk}/export", headers={"authorization": f"Bearer {caller.key}"}
    )
    assert response.status_code == 200
    assert response.streaming
    pieces = [piece async for piece in response.streaming_content]
    assert len(pieces) > 5
    found = json.loads(b"".join(pieces))
    assert [row["username"] for row in found["account"]] == [MARK]
    change = await AdministrativeChange.objects.filter(action="exported").aget()
    assert (change.door, change.actor_key_id) == ("api", caller.row.pk)


class TestErasure:
    def test_nothing_personal_is_left_and_sums_stay(self) -> None:
        zoe, other = person(MARK, num_records=7), person("other")
        others = everything_stored().count("other")
        out = StringIO()
        call_command("user_erase", MARK, "--confirm", MARK, stdout=out)
        left = everything_stored()
        assert MARK not in left
        assert json.dumps(MARK)[1:-1] not in left
        assert left.count("other") == others
        zoe.refresh_from_db()
        assert (zoe.username, zoe.is_active, zoe.has_usable_password()) == (f"erased-{zoe.pk}", False, False)
        assert zoe.api_keys.get().revoked_at is not None
        records = GenerationRecord.objects.filter(user_id=zoe.pk)
        assert sum(record.num_output_tokens for record in records) == 14
        assert {(record.username, record.end_user) for record in records} == {(f"erased-{zoe.pk}", "")}
        assert GenerationText.objects.filter(user_id=other.pk).count() == 3
        assert GenerationText.objects.count() == 3
        assert IdempotentRequest.objects.count() == 1
        change = AdministrativeChange.objects.first()
        assert (change.action, change.subject_label) == ("erased", f"erased-{zoe.pk}")
        assert "records" in out.getvalue()

    def test_records_are_changed_in_batches_and_all_of_them(self) -> None:
        zoe, other = person(MARK, num_records=7), person("other")
        assert RecordHolder(max_erase_rows=2).erase(data_subject(zoe)) >= 7
        assert not GenerationRecord.objects.filter(username=MARK).exists()
        assert GenerationRecord.objects.filter(username=other.username).count() == 3

    def test_it_can_be_done_again_where_it_broke_off(self) -> None:
        zoe = person(MARK)
        call_command("user_erase", MARK, "--confirm", MARK, stdout=StringIO())
        record_of(zoe, 1, datetime(2026, 1, 1, tzinfo=UTC))
        name = f"erased-{zoe.pk}"
        call_command("user_erase", name, "--confirm", name, stdout=StringIO())
        assert MARK not in everything_stored()

    def test_two_names_and_no_administrator_by_mistake(self) -> None:
        person(MARK)
        with pytest.raises(CommandError, match="differ"):
            call_command("user_erase", MARK, "--confirm", "other")
        User.objects.filter(username=MARK).update(is_staff=True)
        with pytest.raises(CommandError, match="--staff"):
            call_command("user_erase", MARK, "--confirm", MARK)
        assert User.objects.filter(username=MARK, is_active=True).exists()
        call_command("user_erase", MARK, "--confirm", MARK, "--staff", stdout=StringIO())
        assert not User.objects.filter(username=MARK).exists()

    def test_by_the_api(self, manager) -> None:
        zoe = person(MARK)
        url = f"/users/{zoe.pk}/erase"
        assert error_of(manager.post(url))[2] == "confirm"
        assert error_of(manager.post(url, {"confirm": "other"}))[2] == "confirm"
        done = manager.post(url, {"confirm": MARK})
        assert done.status_code == 200
        assert done.json()["erased"]["records"] == 3
        assert MARK not in everything_stored()
        own = manager.post(f"/users/{manager.row.user_id}/erase", {"confirm": "manager"})
        assert error_of(own)[0] == 403

    def test_administrators_are_not_erased_by_keys(self, manager, admin_user) -> None:
        refused = manager.post(f"/users/{admin_user.pk}/erase", {"confirm": admin_user.username})
        assert error_of(refused)[0] == 403
        admin_user.refresh_from_db()
        assert admin_user.is_active

    def test_export_needs_the_scope_for_usage_too(self, manager, bob) -> None:
        assert error_of(manager.get(f"/users/{bob.pk}/export"))[:2] == (403, "permission_denied")
