"""What a client saw of each of its requests, so that it can be held against the service's books.

An attempt is one request on a connection of its own, under an id that the client chose. Everything
that arrives is kept and read only afterwards, so that clients cost little beside the server.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from load import prompt

FIRST_TEXT = re.compile(rb'"(?:content|text)":"[^"]')
PATIENCE_S = 60.0


class Tokens(NamedTuple):
    """As the usage of an answer has them."""

    num_input: int
    num_output: int
    num_cached: int


@dataclass
class Attempt:
    """`status` is 0 where none came. `has_limits` tells that the answer was one to a valid key. `is_whole`:
    `[DONE]` was seen, or a body with its usage. `usage` is None where the client was told none."""

    request_id: str
    key: str
    max_tokens: int
    is_connected: bool = False
    has_left: bool = False
    status: int = 0
    has_limits: bool = False
    is_whole: bool = False
    has_error: bool = False
    usage: Tokens | None = None


@dataclass(frozen=True)
class Plan:
    """A request, and when its client leaves: at once where its answer has begun, after some seconds, or
    (both unset) never."""

    path: str
    body: Mapping[str, Any]
    leaves_at_text: bool = False
    leaves_after_s: float | None = None


@dataclass
class Plans:
    """Requests of all kinds, drawn from a seed; no prompt is asked twice."""

    model: str
    seed: int
    num_made: int = 0
    draw: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def next(self) -> Plan:
        self.num_made += 1
        draw = self.draw
        text = prompt(1_000_000 * self.seed + self.num_made, draw.choice((3, 20, 120)), 0.0)
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": draw.choice((1, 4, 12, 32)),
            "ignore_eos": True,
            "seed": self.num_made,
        }
        if draw.random() < 0.7:
            body["stream"] = True
            if draw.random() < 0.85:
                body["stream_options"] = {"include_usage": True}
        if draw.random() < 0.8:
            path, body["messages"] = "/v1/chat/completions", [{"role": "user", "content": text}]
        else:
            path, body["prompt"] = "/v1/completions", text
        fate = draw.random()
        if fate < 0.10:
            return Plan(path, body | {"stream": True}, leaves_at_text=True)
        if fate < 0.15:
            return Plan(path, body, leaves_after_s=draw.random() * 0.05)
        if fate < 0.18:
            return Plan(path, body | {"max_tokens": 0})
        if fate < 0.20:
            return Plan(path, body | {"model": "unknown"})
        return Plan(path, body)


async def attempt(port: int, key: str, plan: Plan) -> Attempt:
    """Ask once, and return what came of it; never raises what a connection raises."""
    seen = Attempt(str(uuid.uuid4()), key, int(plan.body["max_tokens"]))
    payload = json.dumps(plan.body).encode()
    head = (
        f"POST {plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nx-request-id: {seen.request_id}\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n"
    )
    received = bytearray()
    writer = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            seen.is_connected = True
            writer.write(head.encode() + payload)
            async with asyncio.timeout(plan.leaves_after_s):
                while data := await reader.read(65536):
                    received += data
                    if plan.leaves_at_text and FIRST_TEXT.search(received):
                        seen.has_left = True
                        break
    except TimeoutError:
        seen.has_left = True
    except OSError:
        pass
    finally:
        if writer is not None:
            writer.transport.abort()
    _read(seen, bytes(received))
    return seen


def _read(seen: Attempt, received: bytes) -> None:
    head, _, rest = received.partition(b"\r\n\r\n")
    if b"\r\n\r\n" not in received:
        return
    seen.status = int(head[9:12])
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")[1:]]
    headers = {name: value.strip() for name, _, value in lines}
    seen.has_limits = b"x-ratelimit-limit-requests" in headers
    body = _joined(rest) if headers.get(b"transfer-encoding") == b"chunked" else rest
    if seen.status != 200:
        seen.has_error = True
    elif b"text/event-stream" in headers.get(b"content-type", b""):
        frames = [frame[6:] for frame in body.split(b"\n\n") if frame.startswith(b"data: ")]
        seen.is_whole = bool(frames) and frames[-1] == b"[DONE]"
        chunks = [json.loads(frame) for frame in frames if frame.endswith(b"}")]
        seen.has_error = any("error" in chunk for chunk in chunks)
        seen.usage = next((_tokens(chunk["usage"]) for chunk in chunks if chunk.get("usage")), None)
    elif len(body) == int(headers.get(b"content-length", b"-1")):
        seen.is_whole = True
        seen.usage = _tokens(json.loads(body)["usage"])


def _joined(rest: bytes) -> bytes:
    """The chunks of a body, as far as they came."""
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not size:
            break
        length = int(size, 16)
        parts.append(rest[:length])
        rest = rest[length + 2 :]
    return b"".join(parts)


def _tokens(usage: Mapping[str, Any]) -> Tokens:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Tokens(usage["prompt_tokens"], usage["completion_tokens"], cached)
