"""The live page's socket on a live service, on both servers: who is let in, what comes, what ends it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.contract.api.conftest import LiveService

PASSWORD = "a long enough password"


@contextmanager
def signed_in(live: LiveService, name: str, *, is_operator: bool) -> Iterator[httpx.Client]:
    live.manage(
        "shell",
        "-c",
        "from django.contrib.auth.models import User; "
        f"user, _ = User.objects.get_or_create(username='{name}'); user.set_password('{PASSWORD}'); "
        f"user.is_staff = user.is_superuser = {is_operator}; user.save()",
    )
    with httpx.Client(base_url=live.url, timeout=20) as client:
        page = client.get("/console/login/").text
        token = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', page)[1]
        form = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token}
        assert client.post("/console/login/", data=form).status_code == 302
        yield client


def socket_of(live: LiveService, client: httpx.Client | None, origin: str | None = None):
    headers = {} if client is None else {"Cookie": f"sessionid={client.cookies['sessionid']}"}
    url = f"{live.url.replace('http', 'ws', 1)}/console/live/socket"
    return connect(url, origin=live.url if origin is None else origin, additional_headers=headers, proxy=None)


def code_of(socket) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            socket.recv(timeout=20)
            socket.send("read")
    return closed.value.rcvd.code


def test_others_are_closed_out(live: LiveService) -> None:
    with signed_in(live, "owner", is_operator=False) as owner, signed_in(live, "op", is_operator=True) as op:
        for client in (None, owner):
            with socket_of(live, client) as socket:
                assert code_of(socket) == 4403
        # Another service on this machine, which the browser takes for the same site.
        with socket_of(live, op, f"http://127.0.0.1:{live.port + 1}") as socket:
            assert code_of(socket) == 4403
        with pytest.raises(InvalidStatus):
            socket_of(live, op, "http://evil.example")


def test_snapshots_tell_what_runs_and_a_request_is_cancelled(live: LiveService) -> None:
    answers: list[str] = []
    secret = "a secret question"
    asking = threading.Thread(
        target=lambda: answers.append(live.chat(secret, max_tokens=4000, ignore_eos=True, stream=True).text)
    )
    with signed_in(live, "op", is_operator=True) as op, socket_of(live, op) as socket:
        asking.start()
        while True:
            text = socket.recv(timeout=20)
            assert secret not in text and live.key not in text
            told = json.loads(text)
            socket.send("read")
            found = [one for one in told["requests"] if one["num_output_tokens"] > 3]
            if found:
                break
        (model,) = [one for one in told["models"] if one["id"] == live.model]
        assert (model["state"], told["is_complete"], found[0]["username"]) == ("ready", True, "ada")
        assert model["num_lanes"] >= model["limit"] >= 1
        page = op.get("/console/live/").text
        token = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', page)[1]
        ended = op.post(
            f"/console/live/{found[0]['record_id']}/cancel",
            headers={"X-CSRFToken": token, "Referer": live.url},
        )
        assert ended.status_code == 200, ended.text
        asking.join(30)
        assert "request_cancelled" in answers[0]
        while not any("cancelled" in one["text"] for one in json.loads(socket.recv(timeout=20))["events"]):
            socket.send("read")
        live.manage(
            "shell", "-c", "from django.contrib.sessions.models import Session as S; S.objects.all().delete()"
        )
        assert code_of(socket) == 4403
    live.alive()
