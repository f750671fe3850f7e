"""A reader that stops is felt by the sender after kilobytes, and costs neither memory nor a socket."""

from __future__ import annotations

import time
import uuid

from tests.contract.servers.live_server import LiveServer


def test_send_blocks_for_a_stalled_reader_and_abort_frees_the_socket(server: LiveServer) -> None:
    time.sleep(0.2)  # sockets of other tests
    num_before = server.num_sockets_at_rest()
    memory_before = server.memory_bytes()
    tags = [uuid.uuid4().hex for _ in range(4)]
    clients = []
    for tag in tags:
        client = server.connect(receive_buffer_bytes=4096)
        client.request("GET", f"/flood?tag={tag}&patience=0.5")
        clients.append(client)
    for tag in tags:
        stalled = server.event("stalled", tag=tag)
        assert stalled["num_bytes"] < 200_000
        assert 0.4 < stalled["stalled_s"] < 1.0
    assert server.memory_bytes() - memory_before < 8_000_000
    deadline_ts = time.monotonic() + 1
    while server.num_sockets() > num_before and time.monotonic() < deadline_ts:
        time.sleep(0.02)
    assert server.num_sockets() <= num_before
    for client in clients:
        client.socket.close()


def test_a_slow_reader_gets_everything(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    with server.connect(receive_buffer_bytes=4096) as client:
        client.request("GET", f"/flood?tag={tag}&limit=800000")
        time.sleep(0.3)
        answer = client.answer()
        assert answer.is_complete
        assert len(answer.body) >= 800_000
        server.event("flooded", tag=tag)


def test_a_stall_that_nobody_handles_is_ended_by_the_server(server_name: str) -> None:
    with LiveServer(server_name, stall_timeout_s=0.6) as server:
        num_before = server.num_sockets_at_rest()
        client = server.connect(receive_buffer_bytes=4096)
        client.request("GET", "/flood?tag=x&limit=3000000")
        begun_ts = time.monotonic()
        # After the abort `send` does nothing, so that the flood runs to its end.
        assert server.event("flooded", tag="x")["ts"] - begun_ts < 2.0
        assert server.sockets_settle_at(num_before)
        client.socket.close()


def test_an_unread_last_answer_does_not_keep_the_socket(server_name: str) -> None:
    with LiveServer(server_name, stall_timeout_s=0.6, keep_alive_s=0.5) as server:
        num_before = server.num_sockets_at_rest()
        client = server.connect(receive_buffer_bytes=4096)
        # Fits into the buffers of kernel and process: the application is long done.
        client.request("GET", "/flood?tag=x&limit=70000", "Connection: close")
        server.event("flooded", tag="x")
        assert server.sockets_settle_at(num_before)
        client.socket.close()


NUMBERS = b"".join([b"%d\n" % number for number in range(50)]) + b"end\n"


def test_what_is_written_at_once_and_what_is_sent_arrive_in_order(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    with server.connect() as client:
        client.request("GET", f"/write?tag={tag}")
        answer = client.answer()
        assert answer.is_complete
        assert answer.body == NUMBERS
        # Not before the answer has begun, and not after its end.
        assert server.event("written", tag=tag)["was_writable"] == [False, True, False]


def test_a_body_with_a_length_is_sent_and_not_written(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    with server.connect() as client:
        client.request("GET", f"/write?tag={tag}&length={len(NUMBERS)}")
        assert client.answer().body == NUMBERS
        assert server.event("written", tag=tag)["was_writable"] == [False, False, False]


def test_nothing_can_be_written_to_a_reader_that_is_behind(server: LiveServer) -> None:
    tag = uuid.uuid4().hex
    with server.connect(receive_buffer_bytes=4096) as client:
        client.request("GET", f"/write?tag={tag}&flood=1")
        written = server.event("written", tag=tag)
        assert written["was_writable"][-1] is False
        assert written["num_bytes"] < 200_000
