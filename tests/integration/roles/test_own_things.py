"""What is one user's, asked for by another who is no staff: by every path, in every list, on the socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import services
from accounts.models import ApiKey
from accounts.scopes import Scope
from inference.dashboards.live.rights import watching_sessions
from inference.dashboards.live.seats import SeatsTaken
from inference.dashboards.live.socket import NOT_ALLOWED, LiveSocket
from tests.integration.roles.test_reach import address, api_name, paths

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_log")]
# By what another's things are known wherever they show.
MARKS = (
    "somebody-else",
    "else@example.org",
    "key-of-another",
    "team-of-others",
    "model-of-another",
    "request-of-another",
    "words-of-another",
)


def shows(response: Any) -> list[str]:
    if response.streaming:

        async def whole() -> bytes:
            return b"".join([piece async for piece in response])

        text = (asyncio.run(whole()) if response.is_async else b"".join(response)).decode()
    else:
        text = response.content.decode(errors="replace")
    return [mark for mark in MARKS if mark in text]


def test_no_path_shows_a_key_owner_anything_of_another(people, things) -> None:
    """Each path as it is, and with each way of naming the other: refused, or without anything of his."""
    named = [
        "",
        f"user_id={things['user_id']}",
        f"user={things['user_id']}",
        "username=somebody-else",
        f"key_id={things['key_id']}",
        f"key={things['key_id']}",
        f"team_id={things['full_team_id']}",
        f"team={things['full_team_id']}",
        "request_id=request-of-another",
        "q=request-of-another",
        "model=model-of-another&range=30d",
    ]
    client, seen, num_asked = people["key owner"], [], 0
    for written, name in paths():
        if name in ("logout", "login"):
            continue
        is_open = client.get(address(written, things)).status_code == 200
        for query in named if is_open else named[:1]:
            response = client.get(f"{address(written, things)}?{query}")
            # What he wrote into the address himself comes back in the form.
            found = (
                [mark for mark in shows(response) if mark not in query] if response.status_code == 200 else []
            )
            found = found or (shows(response) if not query else [])
            seen += [(written, query, found)] if found else []
            num_asked += 1
    assert seen == []
    assert num_asked > len(list(paths()))
    # The same marks are there for who may see them, so that their absence says something.
    log = people["operator"].get("/console/requests/?range=30d")
    assert {"somebody-else", "key-of-another", "model-of-another"} <= set(shows(log))


def test_no_key_of_his_changes_anything_of_another(people, things) -> None:
    owner = User.objects.get(username="key-owner")
    scopes = frozenset({Scope.INFERENCE, Scope.USAGE, Scope.KEYS_OWN})
    _, minted = services.api_key_create(user=owner, name="mine", scopes=scopes)
    header, client = {"authorization": f"Bearer {minted.plaintext}"}, Client()
    live, _ = services.api_key_create(user=User.objects.get(username="somebody-else"), name="live")
    before = list(ApiKey.objects.order_by("pk").values())
    for written, _ in paths():
        if not written.startswith(("api/", "^api/")) or "_id" not in api_name(written):
            continue
        url = address(written, {**things, "key_id": live.pk})
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            response = client.generic(method, url, b"{}", content_type="application/json", headers=header)
            assert response.status_code in (403, 404, 405), (method, url)
            assert shows(response) == []
    for field, value in (("user_id", things["user_id"]), ("team_id", things["full_team_id"])):
        for path in ("usage", "records", "requests", "keys"):
            response = client.get(f"/api/{path}", {field: value}, headers=header)
            assert response.status_code in (200, 400, 403)
            assert shows(response) == []
    response = client.post(
        "/api/keys",
        {"name": "x", "user_id": things["user_id"]},
        content_type="application/json",
        headers=header,
    )
    assert response.status_code == 403
    unchanged = [row for row in ApiKey.objects.order_by("pk").values() if row["name"] != "mine"]
    assert unchanged == [row for row in before if row["name"] != "mine"]


def test_the_socket_lets_in_whom_the_live_page_lets_in(people) -> None:
    sessions = {
        role: client.cookies["sessionid"].value for role, client in people.items() if role != "nobody"
    }
    allowed = watching_sessions([*sessions.values(), "made-up"])
    assert {role for role, key in sessions.items() if key in allowed} == {
        "administrator",
        "operator",
        "auditor",
    }

    class Board:
        """The real board's answer of who may look on, as asked above; who may is told that it is full."""

        is_asked_for_a_seat = False

        async def may_watch(self, session: str) -> bool:
            return session in allowed

        def seat(self, session: str) -> Any:
            self.is_asked_for_a_seat = True
            raise SeatsTaken

    async def tried(session: str, origin: str) -> tuple[bool, list[dict[str, Any]]]:
        board, sent = Board(), []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"testserver"), (b"origin", origin.encode())]
        scope = {"type": "websocket", "cookies": {"sessionid": session}, "headers": headers}
        await LiveSocket(board)(scope, receive, send)
        return board.is_asked_for_a_seat, sent

    for role, session in {**sessions, "nobody": "", "made-up": "made-up"}.items():
        for origin in ("http://testserver", "http://elsewhere.example"):
            is_let_in, sent = asyncio.run(tried(session, origin))
            assert is_let_in == (session in allowed and origin == "http://testserver"), (role, origin)
            assert [one["type"] for one in sent] == ["websocket.accept", "websocket.close"]
            assert (sent[-1]["code"] == NOT_ALLOWED) != is_let_in
