"""No client holds a connection for nothing: deadlines per phase, sizes of heads, connections in all."""

from __future__ import annotations

import time

import pytest

from accounts.keys import mint
from tests.contract.servers.live_server import LiveServer

GOOD = f"Authorization: Bearer {mint().plaintext}"


def dribble(client, data: bytes, *, pause_s: float) -> float:  # type: ignore[no-untyped-def]
    """Send a byte at a time until the server ends it or the data does; returns how long it took."""
    begun_ts = time.monotonic()
    client.socket.settimeout(pause_s)
    for number in range(len(data)):
        try:
            client.send(data[number : number + 1])
            if client._fill():
                break
        except TimeoutError:
            continue
        except OSError:
            break
    client.socket.settimeout(5)
    return time.monotonic() - begun_ts


def test_headers_that_dribble_in_are_ended_in_time(server: LiveServer) -> None:
    with server.connect() as client:
        lasted_s = dribble(client, b"GET /echo HTTP/1.1\r\nX-Slow: " + b"a" * 100, pause_s=0.05)
        assert 0.5 < lasted_s < 1.5
        assert client.answer().status == 408
        assert client.is_closed()


def test_a_connection_that_says_nothing_is_closed(server: LiveServer) -> None:
    with server.connect() as client:
        begun_ts = time.monotonic()
        assert client.is_closed()
        assert time.monotonic() - begun_ts < 1.5


def test_an_idle_kept_alive_connection_is_closed_later(server: LiveServer) -> None:
    with server.connect() as client:
        client.ask("GET", "/echo")
        begun_ts = time.monotonic()
        assert client.is_closed()
        assert 0.9 < time.monotonic() - begun_ts < 2.0


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_dribbles_in_is_408(server: LiveServer, framing: str) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/echo", GOOD, framing)
        data = b"1\r\na\r\n" * 200 if "chunked" in framing else b"a" * 999
        lasted_s = dribble(client, data, pause_s=0.05)
        assert 0.5 < lasted_s < 1.5
        answer = client.answer()
        assert answer.status == 408
        assert answer.error()["code"] == "request_timeout"
        assert client.is_closed()


def test_a_long_answer_has_no_deadline(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("GET", "/stream?n=4&interval=0.4")
        answer = client.answer()
        assert answer.is_complete
        assert answer.body.endswith(b"end\n")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 60_000 + b" HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer " + b"k" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\n" + b"X-Many: aaaaaaaaaaaaaaaaaaaaaaa\r\n" * 2_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nX-Endless: " + b"a" * 300_000,
    ],
    ids=["target", "header", "headers", "unfinished"],
)
def test_an_oversized_head_is_431(server: LiveServer, head: bytes) -> None:
    with server.connect() as client:
        client.send(head)
        assert client.answer().status == 431
        assert client.is_closed()


def test_a_head_of_ordinary_size_is_fine(server: LiveServer) -> None:
    with server.connect() as client:
        cookie = "c" * 8_000
        assert client.ask("GET", "/echo", f"Cookie: {cookie}").json()["headers"]["cookie"] == cookie


def test_beyond_the_limit_idle_connections_give_way_and_busy_ones_do_not(server_name: str) -> None:
    with LiveServer(server_name, max_connections=4, linger_s=0.5) as server:
        idle = [server.connect() for _ in range(4)]
        assert idle[0].ask("GET", "/echo").status == 200
        with server.connect() as newcomer:
            assert newcomer.ask("GET", "/echo").status == 200
        busy = [server.connect() for _ in range(4)]
        for client in busy:
            client.request("GET", "/stream?interval=0.05")
            assert client.receive_some()
        refused_ts = time.monotonic()
        refused = [server.connect() for _ in range(3)]
        for client in refused:
            answer = client.answer()
            assert answer.status == 503
            assert answer.error()["code"] == "service_unavailable"
            assert answer.headers["retry-after"] == "1"
            assert client.is_closed(), "the server closes its side"
        assert time.monotonic() - refused_ts < 1.0
        assert all(client.receive_some() for client in busy)
        busy[0].socket.close()
        time.sleep(0.1)
        with server.connect() as newcomer:
            assert newcomer.ask("GET", "/echo").status == 200
        for client in idle + busy + refused:
            client.socket.close()
