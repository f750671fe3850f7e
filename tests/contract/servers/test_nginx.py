"""docs/deployment/nginx.conf, as it stands there, before a server of ours."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from accounts.keys import mint
from tests.contract.api.conftest import free_port
from tests.contract.servers.conftest import MAX_BODY_BYTES
from tests.contract.servers.live_server import LiveServer

CONF = Path(__file__).parents[3] / "docs" / "deployment" / "nginx.conf"
PATIENCE_S = 10.0
pytestmark = pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("openssl") is None, reason="no nginx on this machine"
)


@pytest.fixture(scope="module")
def behind() -> Iterator[LiveServer]:
    with LiveServer("daphne", max_body_bytes=MAX_BODY_BYTES) as running:
        yield running


@pytest.fixture(scope="module")
def client(behind: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with through_nginx(behind, tmp_path_factory.mktemp("nginx")) as made:
        yield made


@contextmanager
def through_nginx(behind: LiveServer, folder: Path) -> Iterator[httpx.Client]:
    """With TLS. What went wrong is in `folder`'s error.log."""
    port = free_port()
    openssl = "openssl req -x509 -newkey rsa:2048 -nodes -keyout privkey.pem -out fullchain.pem"
    subprocess.run(
        [*openssl.split(), "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    site = CONF.read_text()
    for theirs, ours in (
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{behind.port};"),
        ("/etc/ssl/llm.example.org/", f"{folder}/"),
        ("listen 443 ", f"listen 127.0.0.1:{port} "),
        ("listen 80;", f"listen 127.0.0.1:{free_port()};"),
    ):
        assert theirs in site
        site = site.replace(theirs, ours)
    (folder / "site.conf").write_text(site)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths} include {folder}/site.conf; }}\n"
    )
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE
    )
    try:
        deadline_ts = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline_ts
            time.sleep(0.05)
        base = f"https://localhost:{port}"
        trust = ssl.create_default_context(cafile=folder / "fullchain.pem")
        with httpx.Client(base_url=base, verify=trust, timeout=PATIENCE_S) as made:
            made.headers["Host"] = "llm.example.org"
            yield made
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_each_part_of_a_stream_comes_as_it_was_sent(client: httpx.Client) -> None:
    with client.stream("GET", "/stream?n=4&interval=0.3") as answer:
        lags_s = []
        for line in answer.iter_lines():
            parts = line.split()
            if len(parts) == 2:
                lags_s.append((time.monotonic_ns() - int(parts[1])) / 1e9)
    assert len(lags_s) == 4 and max(lags_s) < 0.25, lags_s


def test_who_leaves_is_heard_of(behind: LiveServer, client: httpx.Client) -> None:
    with client.stream("GET", "/stream?tag=leaves") as answer:
        next(answer.iter_lines())
    behind.event("disconnect", tag="leaves")


def test_the_service_s_own_words_come_through(client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["error"]["code"] == "invalid_api_key"
    key = {"Authorization": f"Bearer {mint().plaintext}"}
    body = b"x" * (MAX_BODY_BYTES + 1)
    for content in (body, iter([body])):
        answer = client.post("/v1/echo", content=content, headers=key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert client.post("/v1/echo", content=body[1:], headers=key).json()["num_body_bytes"] == MAX_BODY_BYTES


def test_of_forwarded_addresses_only_nginx_s_own_word_is_handed_on(client: httpx.Client) -> None:
    sent = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "http", "X-Real-IP": "203.0.113.9"}
    for path in ("/echo", "/console/login/", "/console/welcome/a-secret/"):
        seen = client.post(path, headers=sent).json()["headers"]
        assert (seen["x-forwarded-for"], seen["x-forwarded-proto"]) == ("127.0.0.1", "https"), path
        assert seen["host"] == "llm.example.org"


def test_metrics_are_for_inside(client: httpx.Client) -> None:
    assert client.get("/metrics").status_code == 404


def test_who_is_refused_leaves_no_secret_path_in_a_log(behind: LiveServer, tmp_path: Path) -> None:
    with through_nginx(behind, tmp_path) as client:
        for path in ("/console/login/", "/console/welcome/sl-skippy-secret/"):
            assert 429 in {client.get(path).status_code for _ in range(15)}, path
    told = (tmp_path / "error.log").read_text()
    assert "/console/login/" in told
    assert "sl-skippy-secret" not in told
