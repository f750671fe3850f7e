"""Asks a started service whether it can be used yet, without threads and without heavy clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ANSWER_LIMIT_BYTES = 1 << 16
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a probe found. `detail` says what is still in the way, in a few words.

    `is_broken`: it will not become ready by waiting, only by a new start. `is_silent`: nobody answered.
    """

    is_ready: bool
    detail: str = ""
    is_broken: bool = False
    is_silent: bool = False


Probe = Callable[[], Awaitable[Readiness]]


async def always_ready() -> Readiness:
    """For services that nobody waits for."""
    return Readiness(is_ready=True)


async def valkey_ready(socket: Path) -> Readiness:
    """PING in the inline form of the Redis protocol; `-LOADING` while the log is replayed."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(b"PING\r\n")
                line = await reader.readline()
            finally:
                await _closed(writer)
    except (OSError, TimeoutError) as error:
        return Readiness(is_ready=False, detail=str(error) or "no answer")
    return Readiness(
        is_ready=line.startswith(b"+PONG"), detail=line.decode("ascii", "replace").strip("-\r\n")
    )


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and a JSON body (an empty dict where it is none)."""

    status: int
    body: dict[str, Any]


async def http_get(host: str, port: int, path: str) -> HttpAnswer:
    """A GET on this machine. Raises OSError or TimeoutError where nobody answers within 5 s."""
    async with asyncio.timeout(_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            shown = f"[{host}]" if ":" in host else host
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {shown}:{port}\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            answer = await reader.read(_ANSWER_LIMIT_BYTES)
            while chunk := await reader.read(_ANSWER_LIMIT_BYTES):
                answer += chunk
                if len(answer) > _ANSWER_LIMIT_BYTES:
                    break
        finally:
            await _closed(writer)
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise OSError("not an HTTP answer")
    return HttpAnswer(int(words[1]), _json_object(body))


def own_address(host: str) -> str:
    """An address to reach a server at that listens at `host`: a wildcard is not one."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


async def http_ready(host: str, port: int, path: str) -> Readiness:
    """Ready at any 200, also a degraded one; a 503 says in its body what it waits for.

    The status `failed` in the body is an engine that cannot be started or has died.
    """
    try:
        answer = await http_get(own_address(host), port, path)
    except TimeoutError:
        return Readiness(is_ready=False, detail="no answer", is_silent=True)
    except OSError:
        return Readiness(is_ready=False, is_silent=True)
    reasons = answer.body.get("reasons")
    status = str(answer.body.get("status", ""))
    named = ", ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    return Readiness(is_ready=answer.status == 200, detail=named or status, is_broken=status == "failed")


def _json_object(body: bytes) -> dict[str, Any]:
    # Chunked bodies have their sizes around the object: what is between the outer braces is enough.
    start, end = body.find(b"{"), body.rfind(b"}")
    with contextlib.suppress(ValueError):
        parsed = json.loads(body[start : end + 1]) if start >= 0 else {}
        if isinstance(parsed, dict):
            return parsed
    return {}


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
