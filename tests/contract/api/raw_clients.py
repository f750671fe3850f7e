"""Clients that misbehave below HTTP's manners: they leave in the middle, or stop reading and stay."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

from tests.contract.api.conftest import LiveService

TIME_WAIT, LISTEN = "06", "0A"


def request_bytes(service: LiveService, **fields: Any) -> bytes:
    """A chat request as it goes over the wire; `headers` are more header lines."""
    headers = fields.pop("headers", "")
    fields.setdefault("messages", [{"role": "user", "content": "Tell a story."}])
    body = json.dumps({"model": service.model, "ignore_eos": True, "max_tokens": 4000, **fields}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    )
    return head.encode() + body


async def connect(service: LiveService, *, receive_buffer_bytes: int | None = None) -> socket.socket:
    """A connected socket that does not block; a small receive buffer makes a stall show early."""
    client = socket.socket()
    client.setblocking(False)
    if receive_buffer_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", service.port))
    return client


def num_connections(service: LiveService) -> int:
    """TCP connections that the server's side still has, whoever wants to be rid of them."""
    num = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if int(local.split(":")[1], 16) == service.port and state not in (TIME_WAIT, LISTEN):
            num += 1
    return num


def memory_bytes(service: LiveService) -> int:
    """Resident memory of the server's process."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def held(service: LiveService) -> dict[str, int]:
    """Everything that a request can hold, by name, as the service counts it."""
    statistics = service.statistics()
    admission, engine = statistics["admission"], statistics["engine"]
    return {
        "granted": admission["num_granted"],
        "waiting": admission["queue"]["num_waiting"],
        "reserved tokens": admission["budget"]["num_reserved_tokens"],
        "lanes": engine["lanes"]["num_used"],
        "cells": engine["num_cells_used"],
        "held sequences": engine["num_held"],
        "sessions": statistics["sessions"]["num_sessions"],
        "waiting for a session": statistics["sessions"]["num_waiting"],
    }
