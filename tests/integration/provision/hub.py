"""A small stand-in for a Hugging Face hub: what its /resolve/ addresses answer, over plain HTTP."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_RESOLVE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


@dataclass
class Hub:
    """Files by (repository, file); what was asked is kept for the tests to look at."""

    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    announced_sha256: str | None = None  # instead of the true one
    announced_size: int | None = None  # likewise, to HEAD
    stalls_after_bytes: int | None = None  # no more comes from there on
    ignores_ranges: bool = False
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)  # method, path, Range
    tokens: list[str | None] = field(default_factory=list)
    url: str = ""

    def put(self, repo: str, file: str, content: bytes) -> None:
        self.files[repo, file] = content


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a free port of this machine."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, *, with_body: bool) -> None:
            hub.requests.append((self.command, self.path, self.headers.get("Range")))
            hub.tokens.append(self.headers.get("Authorization"))
            asked = _RESOLVE.fullmatch(self.path)
            if asked is None:
                return self.refuse(404, "RepoNotFound")
            if asked["repo"] in hub.gated:
                return self.refuse(403, "GatedRepo")
            if all(repo != asked["repo"] for repo, _ in hub.files):
                return self.refuse(401, "RepoNotFound")
            if asked["revision"] not in ("main", "v1", COMMIT):
                return self.refuse(404, "RevisionNotFound")
            content = hub.files.get((asked["repo"], asked["file"]))
            if content is None:
                return self.refuse(404, "EntryNotFound")
            return self.send_file(content, with_body=with_body)

        def send_file(self, content: bytes, *, with_body: bool) -> None:
            start = 0
            if (asked := self.headers.get("Range")) and not hub.ignores_ranges:
                start = int(asked.removeprefix("bytes=").partition("-")[0])
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            body = content[start:]
            size = hub.announced_size if hub.announced_size and not with_body else len(body)
            self.send_header("Content-Length", str(size))
            self.send_header("ETag", f'"{hub.announced_sha256 or hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if with_body:
                self.wfile.write(body[: hub.stalls_after_bytes])
                if hub.stalls_after_bytes is not None:
                    self.connection.recv(1)  # until the other side is gone
                    self.close_connection = True

        def refuse(self, status: int, code: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", "as the hub says it")
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
