"""Maintenance as a row: written by command, API and console, told in the history, heard by processes."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts import services
from accounts.models import AdministrativeChange
from accounts.role_groups import role_groups_ensure, role_set
from accounts.roles import Role
from inference.domain.maintenance import OPEN, Maintenance
from inference.maintenance.selectors import maintenance_get, maintenance_read
from inference.maintenance.services import MaintenancePlan, maintenance_begin, maintenance_end
from skippy_site.maintenance import make_maintenance_watch

SOON = timezone.now() + timedelta(hours=1)


def command(*arguments: str) -> str:
    said = io.StringIO()
    call_command("maintenance", *arguments, stdout=said)
    return said.getvalue()


@pytest.fixture
def staff(db: None) -> dict[Role, Client]:
    role_groups_ensure()
    clients = {}
    for role in Role:
        user = User.objects.create_user(role.value.replace(" ", "-"))
        role_set(user=user, role=role)
        clients[role] = Client()
        clients[role].force_login(user)
    return clients


@pytest.mark.django_db
class TestTheRow:
    def test_it_is_open_until_somebody_closes_it(self) -> None:
        assert maintenance_read() == OPEN and not maintenance_end()
        maintenance_begin(plan=MaintenancePlan(message="  New disks. ", until=SOON, refuses_queued=True))
        assert maintenance_read() == Maintenance(
            is_on=True, message="New disks.", until=SOON, refuses_queued=True
        )
        began_at = maintenance_get().began_at
        maintenance_begin(plan=MaintenancePlan(message="Longer."))
        row = maintenance_get()
        assert (row.began_at, row.message, row.until) == (began_at, "Longer.", None)
        assert maintenance_end() and maintenance_read() == OPEN

    def test_a_planned_end_that_has_passed_opens_nothing(self) -> None:
        row = maintenance_begin(plan=MaintenancePlan(until=SOON))
        row.until = timezone.now() - timedelta(hours=1)
        row.save()
        assert maintenance_read().is_on

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("message", "x" * 501),
            ("message", "a\nb"),
            ("message", "a\x00b"),
            ("message", "\u202egpj"),
            ("message", "\ud800"),
            ("message", "\u2060"),
            ("until", datetime(2026, 1, 1, tzinfo=UTC)),
            ("until", datetime.now() + timedelta(hours=1)),
            ("until", timezone.now() + timedelta(days=400)),
            ("let_key_ids", [999_999]),
            ("let_key_ids", list(range(101))),
        ],
    )
    def test_what_is_wrong_is_named(self, field: str, value: Any) -> None:
        with pytest.raises(ValidationError) as problem:
            maintenance_begin(plan=MaintenancePlan(**{field: value}))
        assert set(problem.value.error_dict) == {field}
        assert maintenance_read() == OPEN

    def test_administrators_are_superusers_and_who_has_the_role(self, staff: dict[Role, Client]) -> None:
        root = User.objects.create_superuser("root")
        User.objects.create_superuser("gone", is_active=False)
        key, _ = services.api_key_create(user=User.objects.get(username="auditor"), name="k")
        maintenance_begin(plan=MaintenancePlan(lets_administrators=True, let_key_ids=[key.pk, key.pk]))
        held = maintenance_read()
        assert held.let_user_ids == {root.pk, User.objects.get(username="administrator").pk}
        assert held.let_key_ids == {key.pk}


@pytest.mark.django_db
def test_by_command_and_in_the_history() -> None:
    assert command("status") == "Open: no maintenance.\n"
    until = SOON.replace(microsecond=0)
    told = json.loads(
        command("on", "--message", "Disks", "--until", until.isoformat(), "--drain-queue", "--json")
    )
    assert (told["is_on"], told["message"], told["refuses_queued"]) == (True, "Disks", True)
    assert datetime.fromisoformat(told["until"]) == until
    assert "Under maintenance since" in command("status")
    command("off")
    command("off")
    changes = AdministrativeChange.objects.filter(subject_kind="maintenance").order_by("pk")
    assert [change.changes["is_on"] for change in changes] == [[None, True], [True, False]]
    assert all(change.actor_name for change in changes)
    for wrong in (
        ["on", "--until", "later"],
        ["on", "--until", "2026-99-99T00:00Z"],
        ["on", "--let-key", "9999999"],
    ):
        with pytest.raises(CommandError):
            command(*wrong)


@pytest.mark.django_db
def test_by_the_api(staff: dict[Role, Client]) -> None:
    def put(role: Role, **body: Any) -> Any:
        return staff[role].put("/api/maintenance", json.dumps(body), content_type="application/json")

    answer = put(Role.OPERATOR, message="Disks", lets_administrators=True)
    assert (answer.status_code, answer.json()["began_by"]) == (200, "operator")
    assert staff[Role.AUDITOR].get("/api/maintenance").json()["is_on"] is True
    for wrong in ({"message": "a\nb"}, {"until": "soon"}, {"nonsense": 1}, {"let_key_ids": [99]}):
        answer = put(Role.OPERATOR, **wrong)
        assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(next(iter(wrong)))
    assert put(Role.AUDITOR).status_code == put(Role.KEY_OWNER).status_code == 403
    assert staff[Role.AUDITOR].delete("/api/maintenance").status_code == 403
    assert staff[Role.ADMINISTRATOR].delete("/api/maintenance").status_code == 204
    assert staff[Role.AUDITOR].get("/api/maintenance").json()["is_on"] is False


@pytest.mark.django_db
def test_by_the_console_with_a_banner_for_everybody(staff: dict[Role, Client]) -> None:
    sent = {"message": "<b>Disks</b>", "until": SOON.strftime("%Y-%m-%dT%H:%M"), "refuses_queued": "on"}
    operator = staff[Role.OPERATOR]
    assert operator.post("/console/maintenance/", {**sent, "let_key_ids": "x"}).status_code == 400
    assert operator.post("/console/maintenance/", {**sent, "until": "2001-01-01T00:00"}).status_code == 400
    assert maintenance_read() == OPEN
    assert operator.post("/console/maintenance/", sent).status_code == 302
    assert maintenance_read().refuses_queued
    for role, page in (
        (Role.KEY_OWNER, "/console/start/"),
        (Role.AUDITOR, "/console/maintenance/"),
        (Role.ADMINISTRATOR, "/console/live/"),
        (Role.AUDITOR, "/admin/"),
        (Role.OPERATOR, "/admin/accounts/apikey/"),
    ):
        shown = staff[role].get(page).content.decode()
        assert "Under maintenance." in shown and "&lt;b&gt;Disks" in shown, page
    assert "Under maintenance." not in Client().get("/console/login/").content.decode()
    assert staff[Role.AUDITOR].post("/console/maintenance/", sent).status_code == 403
    assert staff[Role.AUDITOR].post("/console/maintenance/", {"action": "end"}).status_code == 403
    assert operator.post("/console/maintenance/", {"action": "end"}).status_code == 302
    assert "Under maintenance." not in staff[Role.KEY_OWNER].get("/console/start/").content.decode()


@pytest.mark.django_db(transaction=True)
async def test_a_process_hears_of_it_at_once_and_keeps_it_while_the_database_is_away() -> None:
    watch = make_maintenance_watch()
    await watch.start()
    running = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(10):
            while not watch.is_listening:
                await asyncio.sleep(0.01)
        await asyncio.to_thread(_in_thread, "Disks")
        async with asyncio.timeout(1.5):
            while not watch.snapshot.is_on:
                await asyncio.sleep(0.01)
        assert watch.snapshot.message == "Disks"

        async def away() -> Maintenance:
            raise OSError

        watch._read = away
        await watch.refresh()
        assert watch.is_away and watch.snapshot.is_on
    finally:
        running.cancel()
        await asyncio.wait([running])


def _in_thread(message: str) -> None:
    from django.db import connections

    try:
        maintenance_begin(plan=MaintenancePlan(message=message))
    finally:
        connections.close_all()
