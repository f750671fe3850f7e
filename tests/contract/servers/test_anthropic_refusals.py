"""What is refused below the application, on the paths of Anthropic's clients: in the words that they know."""

from __future__ import annotations

import uuid

import pytest

from accounts.keys import mint
from tests.contract.servers.conftest import MAX_BODY_BYTES
from tests.contract.servers.live_server import Answer, LiveServer

KEY = mint().plaintext
GOOD = f"x-api-key: {KEY}"
PATHS = ["/v1/messages", "/v1/messages/count_tokens", "/v1/messages?beta=true"]


def check(answer: Answer, status: int, kind: str) -> None:
    assert answer.status == status
    body = answer.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == kind and body["error"]["message"]
    assert body["request_id"] == answer.headers["x-request-id"] == answer.headers["request-id"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["x-api-key: nonsense"],
        ["x-api-key: " + "k" * 5000],
        [GOOD, GOOD],
        [GOOD, f"Authorization: Bearer {mint().plaintext}"],
    ],
    ids=range(5),
)
def test_no_good_credential_is_401(server: LiveServer, path: str, headers: list[str]) -> None:
    request_id = str(uuid.uuid4())
    with server.connect() as client:
        answer = client.ask("POST", path, *headers, f"x-request-id: {request_id}", body=b"{}")
        check(answer, 401, "authentication_error")
        assert answer.headers["x-request-id"] == request_id
        assert KEY.encode() not in answer.body
        assert client.is_closed()


@pytest.mark.parametrize(
    "headers", [[GOOD], [f"X-API-KEY: {KEY}"], [GOOD, f"Authorization: Bearer {KEY}"]], ids=range(3)
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_x_api_key_reaches_the_application(server: LiveServer, path: str, headers: list[str]) -> None:
    with server.connect() as client:
        assert client.ask("POST", path, *headers, body=b"{}").json()["num_body_bytes"] == 2


@pytest.mark.parametrize("path", PATHS)
def test_a_declared_length_over_the_limit_is_413(server: LiveServer, path: str) -> None:
    with server.connect() as client:
        answer = client.ask("POST", path, GOOD, f"Content-Length: {MAX_BODY_BYTES + 1}")
        check(answer, 413, "request_too_large")


def test_a_chunked_body_over_the_limit_is_413(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/messages", GOOD, "Transfer-Encoding: chunked")
        client.send_until_refused(b"%x\r\n" % 65536 + b"a" * 65536 + b"\r\n", max_bytes=100_000_000)
        check(client.answer(), 413, "request_too_large")


def test_a_body_that_does_not_come_is_408(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/messages", GOOD, "Content-Length: 1000")
        client.send(b"a")
        check(client.answer(), 408, "timeout_error")


def test_malformed_chunks_are_400(server: LiveServer) -> None:
    with server.connect() as client:
        client.request("POST", "/v1/messages", GOOD, "Transfer-Encoding: chunked")
        client.send(b"zz\r\nabc\r\n")
        check(client.answer(), 400, "invalid_request_error")


def test_the_next_request_of_a_connection_is_told_in_its_own_words(server: LiveServer) -> None:
    with server.connect() as client:
        client.ask("POST", "/v1/messages", GOOD, body=b"{}")
        client.send(b"GARBAGE\r\nHost: t\r\n\r\n")
        assert client.answer().error()["type"] == "invalid_request_error"
