"""A client that leaves is heard of in milliseconds, whatever its request is doing."""

from __future__ import annotations

import time
import uuid

from tests.contract.servers.live_server import LiveServer

SOON_S = 0.2


def test_while_sending(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    client = server.connect()
    client.request("GET", f"/stream?tag={tag}")
    assert client.receive_some()
    left_ts = time.monotonic()
    client.socket.close()
    assert server.event("disconnect", tag=tag)["ts"] - left_ts < SOON_S


def test_while_nothing_is_sent(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    client = server.connect()
    client.request("POST", f"/idle?tag={tag}", body=b"abc")
    server.event("idle", tag=tag)
    left_ts = time.monotonic()
    client.socket.close()
    assert server.event("disconnect", tag=tag)["ts"] - left_ts < SOON_S
    server.event("sent to nobody", tag=tag)  # neither an error nor a wait


def test_while_send_is_blocked(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    client = server.connect(receive_buffer_bytes=4096)
    client.request("GET", f"/flood?tag={tag}&limit=5000000")
    time.sleep(0.3)  # until every buffer is full
    client.socket.close()
    # What blocked goes on into the void, and the rest of the flood with it.
    server.event("flooded", tag=tag)


def test_after_a_whole_answer_the_application_is_told_too(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    with server.connect() as client:
        client.request("GET", f"/stream?tag={tag}&n=1")
        assert client.answer().is_complete
        assert client.ask("GET", "/echo").status == 200


def test_in_the_middle_of_a_body_nothing_stays_behind(server: LiveServer) -> None:
    with server.connect() as client:
        client.ask("GET", "/echo")
    time.sleep(0.1)
    num_before = server.num_sockets_at_rest()
    clients = [server.connect() for _ in range(10)]
    for client in clients:
        client.send(b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nabc")
    time.sleep(0.1)
    assert server.num_sockets() == num_before + 10
    for client in clients:
        client.socket.close()
    deadline_ts = time.monotonic() + 2
    while server.num_sockets() > num_before and time.monotonic() < deadline_ts:
        time.sleep(0.02)
    assert server.num_sockets() <= num_before
