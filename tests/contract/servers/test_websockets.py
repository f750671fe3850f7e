"""WebSockets reach the application, and are told when the server goes.

Daphne brings what they need; uvicorn serves them only where `wsproto` or `websockets` is installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.contract.servers.live_server import LiveServer, RawClient

HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)


CAN_UVICORN = any(find_spec(name) for name in ("wsproto", "websockets"))
GOING_AWAY, SERVICE_RESTART = 1001, 1012


@pytest.fixture(
    params=[
        "daphne",
        pytest.param("uvicorn", marks=pytest.mark.skipif(not CAN_UVICORN, reason="no WebSocket library")),
    ]
)
def server(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    with LiveServer(request.param, keep_alive_s=0.4, header_timeout_s=0.4) as running:
        yield running


def open_websocket(server: LiveServer, target: str = "/ws") -> RawClient:
    client = server.connect()
    client.request("GET", target, *HANDSHAKE)
    assert client._until(b"\r\n\r\n").startswith(b"HTTP/1.1 101")
    return client


def send_text(client: RawClient, text: str) -> None:
    mask = b"\x01\x02\x03\x04"
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(text.encode()))
    client.send(bytes([0x81, 0x80 | len(masked)]) + mask + masked)


def receive_frame(client: RawClient) -> tuple[int, bytes]:
    first, length = client._take(2)
    return first & 0x0F, client._take(length)


def test_messages_pass_both_ways_beyond_every_deadline(server: LiveServer) -> None:
    client = open_websocket(server)
    for text in ("one", "two"):
        client.socket.settimeout(5)
        send_text(client, text)
        assert receive_frame(client) == (1, text.upper().encode())
        assert not client.is_closed(patience_s=0.8), "a time limit for requests hit a WebSocket"
    client.socket.close()
    server.event("websocket closed")


def test_a_stop_closes_them_as_going_away(server: LiveServer) -> None:
    with open_websocket(server) as client:
        server.signal()
        opcode, payload = receive_frame(client)
        assert opcode == 8
        assert struct.unpack("!H", payload[:2])[0] in (GOING_AWAY, SERVICE_RESTART)
        client.send(bytes([0x88, 0x82, 0, 0, 0, 0]) + payload[:2])
        server.event("websocket closed")
        assert server.exit_code() == 0


def test_under_v1_they_need_a_credential_too(server: LiveServer) -> None:
    with server.connect() as client:
        assert client.ask("GET", "/v1/realtime", *HANDSHAKE).status == 401
