"""What is refused on the headers alone, or while a body arrives, and how the client hears of it."""

from __future__ import annotations

import time

import httpx
import pytest

from accounts.keys import mint
from tests.contract.servers.conftest import MAX_BODY_BYTES
from tests.contract.servers.live_server import LiveServer

KEY = mint().plaintext
GOOD = f"Authorization: Bearer {KEY}"

MALFORMED = [
    "",
    "Bearer",
    "Bearer ",
    f"bearer {KEY[:-1]}{'x' if KEY[-1] != 'x' else 'y'}",
    f"Basic {KEY}",
    KEY,
    f"Bearer {KEY} extra",
    f"Bearer {KEY},{KEY}",
    "Bearer " + "k" * 10_000,
    "Bearer k\u00e9y",
    "Bearer \u00ff\u00fe",
]


@pytest.mark.parametrize("value", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_credential_is_401(server: LiveServer, value: str) -> None:
    with server.connect() as client:
        answer = client.ask("GET", "/v1/models", f"Authorization: {value}")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.error()["code"] == "invalid_api_key"
        assert KEY.encode() not in answer.body
        assert client.is_closed()


def test_no_credential_is_401_for_every_path_and_method(server: LiveServer) -> None:
    for method, target in [
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("DELETE", "/v1/no/such/path"),
        ("GET", "/v1"),
        ("GET", "/%761/models"),
        ("GET", "http://host/v1/models"),
        ("HEAD", "/v1/models"),
    ]:
        with server.connect() as client:
            answer = client.ask(method, target)
            assert answer.status == 401, (method, target)
            assert client.is_closed(), (method, target)


def test_two_credentials_are_401(server: LiveServer) -> None:
    with server.connect() as client:
        assert client.ask("GET", "/v1/models", GOOD, GOOD).status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_well_formed_credential_reaches_the_application(server: LiveServer, scheme: str) -> None:
    with server.connect() as client:
        answer = client.ask("POST", "/v1/echo", f"Authorization: {scheme} {KEY}", body=b"{}")
        assert answer.json()["num_body_bytes"] == 2


def test_preflights_and_other_paths_need_no_credential(server: LiveServer) -> None:
    with server.connect() as client:
        assert client.ask("OPTIONS", "/v1/chat/completions").json()["method"] == "OPTIONS"
        assert client.ask("GET", "/v1beta").status == 200
        assert client.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize("target", ["/v1/echo", "/api/things", "/"])
def test_a_declared_length_over_the_limit_is_413_at_once(server: LiveServer, target: str) -> None:
    with server.connect() as client:
        begun_ts = time.monotonic()
        answer = client.ask("POST", target, GOOD, f"Content-Length: {MAX_BODY_BYTES + 1}")
        assert answer.status == 413
        assert answer.error()["code"] == "payload_too_large"
        assert answer.received_ts - begun_ts < 0.2, "it waited for the body"


def test_a_body_of_exactly_the_limit_is_served(server: LiveServer) -> None:
    with server.connect() as client:
        answer = client.ask("POST", "/echo", body=b"x" * MAX_BODY_BYTES)
        assert answer.json()["num_body_bytes"] == MAX_BODY_BYTES


@pytest.mark.parametrize("value", ["-1", "+5", "abc", "1.0", "0x10", "1e3", "5, 6"])
def test_a_malformed_content_length_is_400(server: LiveServer, value: str) -> None:
    with server.connect() as client:
        answer = client.ask("POST", "/v1/echo", GOOD, f"Content-Length: {value}")
        assert answer.status == 400
        assert answer.error()["type"] == "invalid_request_error"
        assert client.is_closed()


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 3", "Content-Length: 4"],
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip"],
    ],
)
def test_an_ambiguous_length_is_400(server: LiveServer, headers: list[str]) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/echo", GOOD, *headers)
        assert client.answer().status == 400


@pytest.mark.parametrize("digits", [19, 25, 5000])
def test_an_absurd_content_length_is_refused(server: LiveServer, digits: int) -> None:
    with server.connect() as client:
        answer = client.ask("POST", "/v1/echo", GOOD, "Content-Length: " + "9" * digits)
        assert answer.status in (400, 413)
        answer.error()


@pytest.mark.parametrize("request_line", ["GARBAGE", "GET", "\x00\x01\x02 / HTTP/1.1", "GET / HTTP/9.x"])
def test_what_is_not_http_is_400(server: LiveServer, request_line: str) -> None:
    with server.connect() as client:
        client.send(request_line.encode() + b"\r\nHost: t\r\n\r\n")
        assert client.answer().status == 400
        assert client.is_closed()


def test_a_target_that_is_not_ascii_is_400(server: LiveServer) -> None:
    with server.connect() as client:
        answer = client.ask("GET", "/caf\u00e9")
        assert answer.status == 400
        assert answer.error()["type"] == "invalid_request_error"
        assert client.is_closed()


def test_a_body_beside_a_pipelined_head_is_not_counted_as_headers(server: LiveServer) -> None:
    with server.connect() as client:
        body = b"x" * 60_000
        client.send(
            b"POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n" + body + b"GET /echo HTTP"
        )
        assert client.answer().json()["num_body_bytes"] == 60_000
        client.send(b"/1.1\r\nHost: t\r\n\r\n")
        assert client.answer().status == 200


def test_a_chunked_body_is_cut_at_the_limit_while_the_client_sends(server: LiveServer) -> None:
    memory_before = server.memory_bytes()
    with server.connect() as client:
        client.request("POST", "/v1/echo", GOOD, "Transfer-Encoding: chunked")
        chunk = b"%x\r\n" % 65536 + b"a" * 65536 + b"\r\n"
        num_sent = client.send_until_refused(chunk, max_bytes=400_000_000)
        answer = client.answer()
        assert answer.status == 413
        assert answer.error()["code"] == "payload_too_large"
        assert num_sent < 150_000_000, "the server took much more than it needs for politeness"
    assert server.memory_bytes() - memory_before < 16_000_000


def test_a_large_body_without_a_key_is_401_and_never_kept(server: LiveServer) -> None:
    memory_before = server.memory_bytes()

    def body():  # type: ignore[no-untyped-def]
        for _ in range(400):
            yield b"a" * 1_000_000

    answer = httpx.post(f"http://127.0.0.1:{server.port}/v1/chat/completions", content=body(), timeout=20)
    assert answer.status_code == 401
    assert server.memory_bytes() - memory_before < 16_000_000


def test_malformed_chunks_are_400(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/echo", GOOD, "Transfer-Encoding: chunked")
        client.send(b"zz\r\nabc\r\n")
        assert client.answer().status == 400


def test_expect_continue_is_answered_when_the_body_is_welcome(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/echo", GOOD, "Content-Length: 3", "Expect: 100-continue")
        assert client.answer().status == 100
        client.send(b"abc")
        assert client.answer().json()["num_body_bytes"] == 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [(["Content-Length: 3"], 401), ([GOOD, f"Content-Length: {MAX_BODY_BYTES + 1}"], 413)],
)
def test_expect_continue_is_refused_without_100(server: LiveServer, headers: list[str], status: int) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/echo", *headers, "Expect: 100-continue")
        assert client.answer().status == status
        assert client.is_closed()


def test_an_answer_before_the_end_of_the_body_is_received_whole(server: LiveServer) -> None:
    with server.connect() as client:
        length = MAX_BODY_BYTES
        client.request("POST", "/answer-before-body", "Connection: close", f"Content-Length: {length}")
        client.send(b"x" * length)
        assert client.answer().json() == {"early": True}
        assert client.is_closed()
