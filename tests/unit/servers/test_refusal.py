from __future__ import annotations

from typing import Any

import orjson

from inference.domain.errors import AuthenticationFailed, ServerOverloaded, ServiceUnavailable
from skippy_site.servers.refusal import headers_too_large, refusal, response_bytes, send_response

REQUEST_ID = "6f1dd4a2-8a43-4a5c-9a44-0f5b0c6f3a11"


def test_a_refusal_is_the_error_object_with_an_id_and_closes() -> None:
    response = refusal(AuthenticationFailed("No."), incoming_id=REQUEST_ID.encode())
    headers = dict(response.headers)
    assert response.status == 401
    assert headers[b"x-request-id"] == REQUEST_ID.encode()
    assert headers[b"connection"] == b"close"
    assert headers[b"www-authenticate"] == b"Bearer"
    assert orjson.loads(response.body)["error"]["code"] == "invalid_api_key"


def test_on_anthropics_paths_it_is_anthropics_object() -> None:
    response = refusal(
        AuthenticationFailed("No."), path="/v1/messages/count_tokens", incoming_id=REQUEST_ID.encode()
    )
    headers = dict(response.headers)
    assert headers[b"x-request-id"] == headers[b"request-id"] == REQUEST_ID.encode()
    assert orjson.loads(response.body) == {
        "type": "error",
        "error": {"type": "authentication_error", "message": "No."},
        "request_id": REQUEST_ID,
    }


def test_a_status_without_a_name_has_a_status_line() -> None:
    response = refusal(ServerOverloaded("No."), path="/v1/messages")
    assert response_bytes(response).startswith(b"HTTP/1.1 529 \r\n")


def test_without_an_incoming_id_each_has_its_own() -> None:
    ids = {dict(refusal(ServiceUnavailable("No.")).headers)[b"x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_bytes_on_the_wire() -> None:
    data = response_bytes(refusal(ServiceUnavailable("No.", retry_after_s=7)))
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert b"retry-after: 7" in lines
    assert b"content-length: %d" % len(body) in lines
    assert any(line.startswith(b"date: ") and line.endswith(b" GMT") for line in lines)


def test_head_has_no_body_but_its_length() -> None:
    response = refusal(ServiceUnavailable("No."))
    data = response_bytes(response, is_head=True)
    assert data.endswith(b"\r\n\r\n")
    assert b"content-length: %d" % len(response.body) in data


def test_oversized_headers_are_bare() -> None:
    response = headers_too_large()
    assert (response.status, response.body) == (431, b"")


async def test_through_an_asgi_channel() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    response = refusal(ServiceUnavailable("No."))
    await send_response(send, response)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 503
    assert sent[1]["body"] == response.body
