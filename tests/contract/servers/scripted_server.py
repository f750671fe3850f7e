"""A server process with a small scripted application: `python -m … daphne '{"max_body_bytes": 1}'`.

What happens inside is told on standard output, one JSON object a line with the monotonic instant
(which all processes of a machine share), so that a test can measure across the process border.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from typing import Any
from urllib.parse import parse_qs

from skippy_site.servers.__main__ import choose_server
from skippy_site.servers.contract import (
    CONNECTION_EXTENSION,
    WRITER_EXTENSION,
    ListenConfig,
    ListenProblem,
)
from skippy_site.servers.cross_origin import CrossOriginPolicy
from skippy_site.servers.lifecycle import EXIT_PATIENCE_S, leave_soon

CHUNK = b"data: " + b"x" * 192 + b"\n\n"


def tell(event: str, **details: Any) -> None:
    print(json.dumps({"event": event, "ts": time.monotonic(), **details}), flush=True)


class Request:
    """One request with its query arguments and a few ways to answer."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self.receive = receive
        self._send = send
        query = parse_qs(scope["query_string"].decode())
        self.arguments = {name: values[0] for name, values in query.items()}
        self.tag = self.arguments.get("tag", "")

    async def body(self) -> bytes:
        parts = []
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                tell("disconnected while reading", tag=self.tag)
                raise ConnectionResetError
            parts.append(message["body"])
            if not message.get("more_body"):
                return b"".join(parts)

    async def start(self, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def part(self, data: bytes, more_body: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more_body})

    async def json(self, value: Any) -> None:
        data = json.dumps(value).encode()
        headers = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))
        await self.start(200, *headers)
        await self.part(data, more_body=False)

    def length(self) -> list[tuple[bytes, bytes]]:
        """A Content-Length header, where the test asks for one."""
        return [
            (b"content-length", value.encode()) for key, value in self.arguments.items() if key == "length"
        ]

    async def until_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        tell("disconnect", tag=self.tag)


async def echo(request: Request) -> None:
    scope = request.scope
    body = await request.body()
    await request.json(
        {
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode(),
            "http_version": scope["http_version"],
            "num_body_bytes": len(body),
            "headers": {name.decode(): value.decode("latin-1") for name, value in scope["headers"]},
            "client": scope["client"][0],
        }
    )


async def stream(request: Request) -> None:
    """`n` chunks, one each `interval` seconds, until the end or the disconnect."""
    await request.body()
    watching = asyncio.ensure_future(request.until_disconnect())
    try:
        await request.start(200, (b"content-type", b"text/event-stream"))
        for number in range(int(request.arguments.get("n", 10_000))):
            if watching.done():
                return
            await request.part(b"%d %d\n" % (number, time.monotonic_ns()))
            await asyncio.sleep(float(request.arguments.get("interval", 0.01)))
        await request.part(b"end\n", more_body=False)
    except asyncio.CancelledError:
        tell("cancelled", tag=request.tag)
        if "last" in request.arguments:
            await request.part(b"cancelled\n", more_body=False)
            return
        raise
    finally:
        watching.cancel()


async def idle(request: Request) -> None:
    """Send nothing until the client leaves, then answer into the void."""
    await request.body()
    tell("idle", tag=request.tag)
    await request.until_disconnect()
    assert (await request.receive())["type"] == "http.disconnect"
    await request.start()
    await request.part(b"nobody reads this", more_body=False)
    tell("sent to nobody", tag=request.tag)


async def early_headers(request: Request) -> None:
    await request.body()
    await request.start(200, (b"content-type", b"text/event-stream"))
    await asyncio.sleep(float(request.arguments["wait"]))
    await request.part(b"late", more_body=False)


async def flood(request: Request) -> None:
    """Send as fast as `send` lets us; say when it first blocks, and abort if it does for too long."""
    await request.body()
    connection = request.scope["extensions"][CONNECTION_EXTENSION]
    patience_s = float(request.arguments.get("patience", 3600))
    await request.start(200, (b"content-type", b"text/event-stream"))
    num_bytes = 0
    try:
        while num_bytes < int(request.arguments.get("limit", 200_000_000)):
            async with asyncio.timeout(patience_s):
                await request.part(CHUNK)
            num_bytes += len(CHUNK)
            if num_bytes % (50 * len(CHUNK)) == 0:
                await asyncio.sleep(0)
        await request.part(b"", more_body=False)
        tell("flooded", tag=request.tag, num_bytes=num_bytes)
    except TimeoutError:
        stalled_s = time.monotonic() - connection.stalled_since_ts
        tell("stalled", tag=request.tag, num_bytes=num_bytes, stalled_s=stalled_s)
        connection.abort()


async def write(request: Request) -> None:
    """Parts by the server's writer and by `send` in turn; with `flood`, until the writer refuses."""
    await request.body()
    writer = request.scope["extensions"][WRITER_EXTENSION]
    was_writable = [writer.is_writable]
    await request.start(200, (b"content-type", b"text/event-stream"), *request.length())
    await request.part(b"0\n")
    was_writable.append(writer.is_writable)
    for number in range(1, 50):
        if number % 2 and writer.is_writable:
            writer.write(b"%d\n" % number)
        else:
            await request.part(b"%d\n" % number)
    num_bytes = 0
    while "flood" in request.arguments and writer.is_writable and num_bytes < 10_000_000:
        writer.write(CHUNK)
        num_bytes += len(CHUNK)
    if "flood" not in request.arguments:
        await request.part(b"end\n", more_body=False)
    was_writable.append(writer.is_writable)
    tell("written", tag=request.tag, num_bytes=num_bytes, was_writable=was_writable)
    if "flood" in request.arguments:
        request.scope["extensions"][CONNECTION_EXTENSION].abort()


async def boom(request: Request) -> None:
    if "started" in request.arguments:
        await request.start(200)
        await request.part(b"begun")
    raise RuntimeError("secret detail")


async def silent(request: Request) -> None:
    if "started" in request.arguments:
        await request.start(200)
        await request.part(b"begun")


async def stuck(request: Request) -> None:
    """Wait for a thread that does not end, as a synchronous view might."""
    tell("stuck", tag=request.tag)
    work = asyncio.get_running_loop().run_in_executor(None, time.sleep, 30)
    while not work.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(work)


async def no_content(request: Request) -> None:
    await request.start(204)
    await request.part(b"", more_body=False)


async def answer_before_body(request: Request) -> None:
    await request.json({"early": True})


async def websocket(scope: Any, receive: Any, send: Any) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            tell("websocket closed", code=message.get("code"))
            return
        await send({"type": "websocket.send", "text": message["text"].upper()})


ROUTES = {
    "/stream": stream,
    "/v1/stream": stream,
    "/idle": idle,
    "/early-headers": early_headers,
    "/flood": flood,
    "/write": write,
    "/boom": boom,
    "/v1/boom": boom,
    "/silent": silent,
    "/no-content": no_content,
    "/stuck": stuck,
    "/answer-before-body": answer_before_body,
}


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await websocket(scope, receive, send)
        return
    request = Request(scope, receive, send)
    try:
        await ROUTES.get(scope["path"], echo)(request)
    except ConnectionResetError:
        return


class ScriptedLifespan:
    """Tells when it is called."""

    def __init__(self, *, fails_to_start: bool) -> None:
        self._fails_to_start = fails_to_start

    async def start(self) -> None:
        tell("lifespan.start")
        if self._fails_to_start:
            raise RuntimeError("no model")

    def begin_drain(self) -> None:
        tell("lifespan.begin_drain")

    async def stop(self) -> None:
        tell("lifespan.stop")


class InBandLifespan(ScriptedLifespan):
    def begin_stop(self) -> None:
        tell("lifespan.begin_stop")


def main() -> int:
    # Start-up of the libraries is what the tests wait for; their warnings are not their subject.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    options = json.loads(sys.argv[2])
    lifespan_class = InBandLifespan if options.pop("in_band", False) else ScriptedLifespan
    lifespan = lifespan_class(fails_to_start=options.pop("fails_to_start", False))
    exit_patience_s = options.pop("exit_patience_s", EXIT_PATIENCE_S)
    cross_origin = CrossOriginPolicy(options.pop("cors_origins", ()))
    config = ListenConfig(**{"port": 0, "cross_origin": cross_origin, **options})
    try:
        exit_code = choose_server(sys.argv[1])(
            application,
            lifespan,
            config,
            announce=lambda host, port: tell("listening", host=host, port=port),
        )
    except ListenProblem as problem:
        tell("problem", message=str(problem))
        return 1
    leave_soon(exit_code, patience_s=exit_patience_s)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
