"""/api/requests and its commands: what runs in a server process, and its end by somebody who may."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AdministrativeChange
from accounts.scopes import Scope
from inference.domain.events import Usage
from inference.ledger.database_calls import database_parameters
from inference.ledger.live_listener import LiveListener
from tests.integration.management.conftest import Program, error_of
from tests.ledger_parts import Live, summary

pytestmark = pytest.mark.django_db


class ServerThread:
    """A process's listener on an event loop of its own, and what runs in it."""

    def __init__(self) -> None:
        self.requests: list[Live] = []
        self._listener = LiveListener(database_parameters(), lambda: self.requests)
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._main)
        self._is_ready = threading.Event()

    def _main(self) -> None:
        async def listen() -> None:
            self._task = asyncio.create_task(self._listener.run())
            while not self._listener.is_listening:
                await asyncio.sleep(0.01)
            self._is_ready.set()
            await asyncio.wait([self._task])

        self._loop.run_until_complete(listen())
        self._loop.close()

    def start(self) -> None:
        self._thread.start()
        assert self._is_ready.wait(20)

    def stop(self) -> None:
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def runs(self, caller: Program, request_id: str = "r") -> Live:
        row = caller.row
        made = Live(summary(request_id, user_id=row.user_id, key_id=row.pk, username="u"), Usage(5, 2))
        self.requests.append(made)
        return made


@pytest.fixture
def server() -> Iterator[ServerThread]:
    made = ServerThread()
    made.start()
    yield made
    made.stop()


def cancel(caller: Program, wanted: Live):
    return caller.post(f"/requests/{wanted.record_id}/cancel")


def test_a_key_sees_its_own_and_an_overseer_everybodys(program, server) -> None:
    ann, bob = program("ann"), program("bob")
    overseer = program("boss", frozenset({Scope.USAGE_ALL}))
    server.runs(ann, "a"), server.runs(bob, "b")
    shown = overseer.get("/requests").json()
    assert sorted(row["request_id"] for row in shown["data"]) == ["a", "b"]
    assert (shown["num_servers"], shown["num_silent_servers"]) == (1, 0)
    (own,) = ann.get("/requests").json()["data"]
    assert (own["request_id"], own["phase"]) == ("a", "preparing")
    assert (own["num_input_tokens"], own["num_output_tokens"]) == (5, 2)
    by_key = overseer.get(f"/requests?key_id={bob.row.pk}").json()["data"]
    assert [row["request_id"] for row in by_key] == ["b"]
    assert error_of(ann.get(f"/requests?key_id={bob.row.pk}"))[0] == 403
    assert error_of(ann.get("/requests?phase=x")) == (400, "invalid_value", "phase")


def test_a_manager_ends_anybodys_and_an_owner_his_own(program, manager, server) -> None:
    ann, bob = program("ann", frozenset({Scope.KEYS_OWN})), program("bob")
    hers, his = server.runs(ann), server.runs(bob)
    assert error_of(cancel(ann, his))[:2] == (404, "not_found")
    assert error_of(cancel(bob, his))[:2] == (403, "permission_denied")
    assert not his.interruptions
    assert cancel(ann, hers).json()["record_id"] == str(hers.record_id)
    assert cancel(manager, his).status_code == 200
    assert [len(one.interruptions) for one in (hers, his)] == [1, 1]
    done = AdministrativeChange.objects.filter(action="cancelled").order_by("pk")
    assert [(one.actor_name, one.subject_label, one.door) for one in done] == [
        ("ann", str(hers.record_id), "api"),
        ("manager", str(his.record_id), "api"),
    ]
    shown = manager.get("/changes?subject_kind=request").json()["data"]
    assert [row["subject_id"] for row in shown] == [None, None]


def test_what_has_ended_or_never_was_is_not_found(program, manager, server) -> None:
    ended = server.runs(program())
    ended.is_ending = True
    for wanted in (ended, Live()):
        assert error_of(cancel(manager, wanted))[:2] == (404, "not_found")
    assert error_of(manager.post("/requests/1/cancel"))[0] == 404
    assert error_of(manager.post(f"/requests/{ended.record_id}/cancel", {"why": 1})) == (
        400,
        "invalid_value",
        "why",
    )
    assert not AdministrativeChange.objects.filter(action="cancelled").exists()


def test_the_admins_session_does_both_with_the_csrf_token(program, server, admin_user) -> None:
    wanted = server.runs(program())
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert len(client.get("/api/requests").json()["data"]) == 1
    path = f"/api/requests/{wanted.record_id}/cancel"
    assert client.post(path, content_type="application/json").status_code == 403
    client.cookies["csrftoken"] = token = "a" * 32
    answer = client.post(path, content_type="application/json", headers={"x-csrftoken": token})
    assert answer.status_code == 200, answer.content
    assert len(wanted.interruptions) == 1


def test_commands(program, server) -> None:
    wanted = server.runs(program("ann"), "mine")

    def said(*arguments: str) -> str:
        out = StringIO()
        call_command(*arguments, stdout=out)
        return out.getvalue()

    assert str(wanted.record_id) in said("request_list")
    assert "1 requests in 1 server processes." in said("request_list")
    (told,) = json.loads(said("request_list", "--json"))["requests"]
    assert (told["request_id"], told["phase"]) == ("mine", "preparing")
    assert "mine" in said("request_cancel", str(wanted.record_id))
    assert len(wanted.interruptions) == 1
    for record_id in ("x", str(Live().record_id)):
        with pytest.raises(CommandError):
            call_command("request_cancel", record_id)
