"""Browsers of other sites: what every answer says to them, whoever gives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from accounts.keys import mint
from tests.contract.servers.conftest import MAX_BODY_BYTES, SERVERS
from tests.contract.servers.live_server import Answer, LiveServer

GOOD = f"Authorization: Bearer {mint().plaintext}"
APP = "https://app.example:8443"
ORIGIN = f"Origin: {APP}"
PREFLIGHT = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")


@pytest.fixture(scope="module", params=SERVERS)
def sharing(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    with LiveServer(
        request.param, max_body_bytes=MAX_BODY_BYTES, body_timeout_s=0.6, cors_origins=[APP]
    ) as running:
        yield running


def check_readable(answer: Answer) -> None:
    assert answer.headers["access-control-allow-origin"] == APP
    assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-credentials" not in answer.headers
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


def test_a_preflight_needs_no_key(sharing: LiveServer) -> None:
    with sharing.connect() as client:
        for path in ("/v1/chat/completions", "/api/keys", "/v1/messages"):
            answer = client.ask("OPTIONS", path, ORIGIN, *PREFLIGHT)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, APP)
            assert "authorization" in answer.headers["access-control-allow-headers"]
        # As if there were no such thing: the application hears of it.
        answer = client.ask("OPTIONS", "/v1/echo", "Origin: https://evil.example", *PREFLIGHT)
        assert answer.json()["method"] == "OPTIONS" and "access-control-allow-origin" not in answer.headers
        assert client.ask("OPTIONS", "/admin/", ORIGIN, *PREFLIGHT).json()["method"] == "OPTIONS"


def test_answers_and_streams_can_be_read(sharing: LiveServer) -> None:
    with sharing.connect() as client:
        check_readable(client.ask("POST", "/v1/echo", GOOD, ORIGIN, body=b"{}"))
        answer = client.ask("GET", "/v1/echo", GOOD)
        assert answer.headers["vary"] == "Origin" and "access-control-allow-origin" not in answer.headers
        assert "vary" not in client.ask("GET", "/admin/", ORIGIN).headers
        stream = client.ask("GET", "/v1/stream?count=3", GOOD, ORIGIN)
        check_readable(stream)
        assert stream.is_complete and stream.headers["transfer-encoding"] == "chunked"


def test_what_the_server_refuses_itself_can_be_read(sharing: LiveServer) -> None:
    too_long = f"Content-Length: {MAX_BODY_BYTES + 1}"
    for status, method, path, *headers in (
        (401, "GET", "/v1/models"),
        (401, "POST", "/v1/messages"),
        (413, "POST", "/v1/echo", GOOD, too_long),
        (413, "POST", "/api/keys", too_long),
        (400, "POST", "/v1/echo", GOOD, "Content-Length: 1", "Transfer-Encoding: chunked"),
        (500, "GET", "/v1/boom", GOOD),
    ):
        with sharing.connect() as client:
            answer = client.ask(method, path, ORIGIN, *headers)
            assert answer.status == status, (path, headers)
            check_readable(answer)


def test_what_is_refused_in_the_middle_of_a_body_can_be_read(sharing: LiveServer) -> None:
    chunk = b"%x\r\n" % 65536 + b"a" * 65536 + b"\r\n"
    for status, part in ((400, b"zz\r\n"), (413, chunk * 6), (408, b"1\r\na\r\n")):
        with sharing.connect() as client:
            client.request("POST", "/v1/echo", GOOD, ORIGIN, "Transfer-Encoding: chunked")
            client.send(part)
            answer = client.answer()
            assert answer.status == status
            check_readable(answer)
