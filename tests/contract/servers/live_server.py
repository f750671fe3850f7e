"""Starts the scripted server as a real process, and talks to it over raw sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

START_PATIENCE_S = 20.0
CHECKOUT = Path(__file__).resolve().parents[3]


class LiveServer:
    """One server process. `options` are fields of ListenConfig, or those of the server's `module` itself."""

    def __init__(self, name: str, *, module: str = "scripted_server", **options: Any) -> None:
        self.name = name
        self._events: list[dict[str, Any]] = []
        self._told = threading.Condition()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.contract.servers.{module}", name, json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=CHECKOUT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> LiveServer:
        self.port = self.event("listening", patience_s=START_PATIENCE_S)["port"]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._stderr.close()

    def event(self, name: str, *, patience_s: float = 5.0, **details: Any) -> dict[str, Any]:
        """The first event of that name with those details; waits for it."""
        wanted = {"event": name, **details}
        deadline_ts = time.monotonic() + patience_s
        with self._told:
            while True:
                for event in self._events:
                    if wanted.items() <= event.items():
                        return event
                remaining_s = deadline_ts - time.monotonic()
                if remaining_s <= 0 or not self._told.wait(remaining_s):
                    raise AssertionError(f"no {wanted} among {self.event_names()}\n{self.log()}")

    def event_names(self) -> list[str]:
        return [event["event"] for event in self._events]

    def log(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode()

    def connect(self, *, receive_buffer_bytes: int | None = None) -> RawClient:
        return RawClient(self.port, receive_buffer_bytes)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_code(self, *, patience_s: float = 8.0) -> int:
        try:
            code = self.process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.event_names()}\n{self.log()}") from None
        self._reader.join()
        return code

    def num_sockets(self) -> int:
        folder = Path(f"/proc/{self.process.pid}/fd")
        return sum(_target(entry).startswith("socket:") for entry in folder.iterdir())

    def num_sockets_at_rest(self) -> int:
        """The number once it stays the same: a server that just began still moves its listener."""
        seen: list[int] = []
        while len(seen) < 4 or len(set(seen[-4:])) > 1:
            seen.append(self.num_sockets())
            time.sleep(0.05)
        return seen[-1]

    def sockets_settle_at(self, expected: int, *, limit_s: float = 2.5) -> bool:
        """Whether the number of sockets becomes `expected`: a close takes the loop another turn."""
        deadline_ts = time.monotonic() + limit_s
        while self.num_sockets() != expected and time.monotonic() < deadline_ts:
            time.sleep(0.02)
        return self.num_sockets() == expected

    def memory_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            with self._told:
                self._events.append(event)
                self._told.notify_all()


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # closed since it was listed
        return ""


@dataclass
class Answer:
    """One answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_complete: bool = True
    """False where the connection was cut before the end that the headers promise."""
    received_ts: float = field(default_factory=time.monotonic)

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> dict[str, Any]:
        """The error object, checked for its form."""
        assert self.headers["content-type"] == "application/json", self
        assert len(self.headers["x-request-id"]) == 36
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"] and error["type"]
        return error


class RawClient:
    """A socket that speaks just enough HTTP to be rude."""

    def __init__(self, port: int, receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(8)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.connect(("127.0.0.1", port))
        self._buffer = b""

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_until_refused(self, data: bytes, *, max_bytes: int) -> int:
        """Send `data` over and over like a client that does not read; returns how much it got rid of."""
        num_sent = 0
        try:
            while num_sent < max_bytes:
                num_sent += self.socket.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return num_sent

    def request(
        self,
        method: str,
        target: str,
        *headers: str,
        body: bytes = b"",
        version: str = "HTTP/1.1",
    ) -> None:
        lines = [f"{method} {target} {version}", "Host: test", *headers]
        if body and not any(line.lower().startswith("content-length") for line in headers):
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def ask(self, method: str, target: str, *headers: str, body: bytes = b"") -> Answer:
        self.request(method, target, *headers, body=body)
        return self.answer(is_head=method == "HEAD")

    def answer(self, *, is_head: bool = False) -> Answer:
        """Read one whole answer; interim ones (100) are returned like others."""
        head = self._until(b"\r\n\r\n")
        assert head.endswith(b"\r\n\r\n"), f"no whole head: {head!r}"
        status_line, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        status = int(status_line.split()[1])
        received_ts = time.monotonic()
        if is_head or status < 200 or status == 204:
            return Answer(status, headers, b"", received_ts=received_ts)
        if "content-length" in headers:
            length = int(headers["content-length"])
            body = self._take(length)
            return Answer(status, headers, body, len(body) == length, received_ts)
        if headers.get("transfer-encoding") == "chunked":
            body, is_complete = self._chunks()
            return Answer(status, headers, body, is_complete, received_ts)
        return Answer(status, headers, self._rest(), received_ts=received_ts)

    def is_closed(self, *, patience_s: float = 3.0) -> bool:
        """Whether the server ends the connection, without a further byte, within that time."""
        self.socket.settimeout(patience_s)
        try:
            return self._buffer == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def receive_some(self) -> bytes:
        data, self._buffer = self._buffer or self.socket.recv(65536), b""
        return data

    def _chunks(self) -> tuple[bytes, bool]:
        body = b""
        while True:
            line = self._until(b"\r\n")
            if not line.endswith(b"\r\n"):
                return body, False
            size = int(line, 16)
            chunk = self._take(size + 2)
            if len(chunk) < size + 2:
                return body + chunk, False
            if size == 0:
                return body, True
            body += chunk[:-2]

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer and self._fill():
            pass
        head, found, self._buffer = self._buffer.partition(mark)
        return head + found

    def _take(self, length: int) -> bytes:
        while len(self._buffer) < length and self._fill():
            pass
        data, self._buffer = self._buffer[:length], self._buffer[length:]
        return data

    def _rest(self) -> bytes:
        while self._fill():
            pass
        data, self._buffer = self._buffer, b""
        return data

    def _fill(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self._buffer += data
        return bool(data)
