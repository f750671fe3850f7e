"""What a well-behaved client sees: framing, keep-alive, order, and failures of the application."""

from __future__ import annotations

import time

import pytest

from tests.contract.servers.live_server import LiveServer


def test_keep_alive_serves_many_requests_on_one_connection(server: LiveServer) -> None:
    with server.connect() as client:
        for number in range(5):
            answer = client.ask("POST", f"/echo?n={number}", body=b"x" * number)
            assert answer.json()["query"] == f"n={number}"
            assert answer.json()["num_body_bytes"] == number
            assert "date" in answer.headers


def test_pipelined_requests_are_answered_in_order(server: LiveServer) -> None:
    with server.connect() as client:
        one = b"POST /echo?n=%d HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc"
        client.send(b"".join(one % number for number in range(20)))
        queries = [client.answer().json()["query"] for _ in range(20)]
        assert queries == [f"n={number}" for number in range(20)]


def test_a_pipelined_request_waits_for_a_running_stream(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("GET", "/stream?n=5")
        client.request("GET", "/v1/models")
        assert client.answer().body.endswith(b"end\n")
        assert client.answer().status == 401


def test_a_malformed_pipelined_request_does_not_touch_the_running_answer(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("GET", "/stream?n=5")
        client.send(b"\x00garbage\r\n\r\n")
        answer = client.answer()
        assert answer.is_complete
        assert answer.body.endswith(b"end\n")


def test_connection_close_is_honoured(server: LiveServer) -> None:
    with server.connect() as client:
        answer = client.ask("GET", "/echo", "Connection: close")
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


@pytest.mark.parametrize("target", ["/echo", "/stream?n=3"])
def test_http_1_0_gets_an_answer_that_ends_with_the_connection(server: LiveServer, target: str) -> None:
    with server.connect() as client:
        client.request("GET", target, version="HTTP/1.0")
        answer = client.answer()
        assert answer.status == 200
        assert "transfer-encoding" not in answer.headers
        assert answer.body.startswith(b"{" if target == "/echo" else b"0 ")
        assert client.is_closed()


def test_each_chunk_leaves_at_once(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("GET", "/stream?n=20&interval=0.02")
        latencies_s = []
        while len(latencies_s) < 15:
            data = client.receive_some()
            arrived_ns = time.monotonic_ns()
            for line in data.split(b"\n"):
                words = line.split(b" ")
                if len(words) == 2 and words[1].strip().isdigit():
                    latencies_s.append((arrived_ns - int(words[1])) / 1e9)
        assert sorted(latencies_s)[len(latencies_s) // 2] < 0.015


def test_headers_of_a_stream_do_not_wait_for_its_first_chunk(server: LiveServer) -> None:
    with server.connect() as client:
        begun_ts = time.monotonic()
        client.request("GET", "/early-headers?wait=0.5")
        assert client.receive_some().startswith(b"HTTP/1.1 200")
        assert time.monotonic() - begun_ts < 0.3


@pytest.mark.parametrize("target", ["/echo", "/stream?n=3&interval=0"])
def test_head_has_headers_and_no_body(server: LiveServer, target: str) -> None:
    with server.connect() as client:
        answer = client.ask("HEAD", target)
        assert answer.status == 200
        assert client.ask("GET", "/echo").status == 200, "bytes of a body came after HEAD"


def test_204_has_no_body(server: LiveServer) -> None:
    with server.connect() as client:
        assert client.ask("GET", "/no-content").status == 204
        assert client.ask("GET", "/echo").status == 200


@pytest.mark.parametrize("target", ["/boom", "/silent"])
def test_a_failing_application_is_a_500_error_object(server: LiveServer, target: str) -> None:
    request_id = "6f1dd4a2-8a43-4a5c-9a44-0f5b0c6f3a11"
    with server.connect() as client:
        answer = client.ask("GET", target, f"X-Request-Id: {request_id}")
        assert answer.status == 500
        assert answer.error()["code"] == "internal_server_error"
        assert answer.headers["x-request-id"] == request_id
        assert b"secret" not in answer.body
        assert b"Traceback" not in answer.body
        assert client.is_closed()


@pytest.mark.parametrize("target", ["/boom?started=1", "/silent?started=1"])
def test_a_failure_after_the_start_cuts_the_answer_visibly(server: LiveServer, target: str) -> None:
    with server.connect() as client:
        answer = client.ask("GET", target)
        assert answer.status == 200
        assert answer.body == b"begun"
        assert not answer.is_complete


def test_scope_has_the_path_of_an_absolute_target(server: LiveServer) -> None:
    with server.connect() as client:
        seen = client.ask("GET", "http://other.example/a%20b?c=d").json()
        assert (seen["path"], seen["query"]) == ("/a b", "c=d")


def test_nothing_of_a_query_or_a_key_reaches_the_log(server: LiveServer) -> None:
    with server.connect() as client:
        client.ask("GET", "/boom?api_key=swordfish", "Authorization: Bearer swordfish")
    with server.connect() as client:
        client.ask("GET", "/v1/models?token=swordfish", "Authorization: Bearer swordfish")
    assert "/boom" in server.log()
    assert "swordfish" not in server.log()
