import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from hooks.outbound.signatures import SIGNATURE
from inference.alerts.webhook import Webhook, WebhookFailed
from inference.models import Alert

ALERT = Alert(
    id=7, kind="budget", subject="key 3", message="Nearly spent.", opened_at=datetime(2026, 1, 1, tzinfo=UTC)
)
SECRET = "s" * 16


class Receiver:
    """A server on this machine that keeps what it is sent, and answers `status`."""

    def __init__(self, status: int = 200, **headers: str) -> None:
        self.bodies: list[bytes] = []
        self.signatures: list[str] = []
        self.paths: list[str] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.paths.append(self.path)
                receiver.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                receiver.signatures.append(self.headers[SIGNATURE])
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Nothing on standard error."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_an_alert_arrives_signed(receiver):
    Webhook(f"http://127.0.0.1:{receiver.port}/hook?a=b", SECRET, allows_private=True).tell(ALERT)

    assert receiver.paths == ["/hook?a=b"]
    body = json.loads(receiver.bodies[0])
    assert (body["id"], body["kind"], body["message"]) == (7, "budget", "Nearly spent.")
    at, digest = (part.partition("=")[2] for part in receiver.signatures[0].split(","))
    expected = hmac.new(SECRET.encode(), at.encode() + b"." + receiver.bodies[0], hashlib.sha256).hexdigest()
    assert digest == expected


def test_nothing_is_sent_into_our_own_network(receiver):
    for url in (f"http://127.0.0.1:{receiver.port}/", f"http://localhost:{receiver.port}/"):
        with pytest.raises(WebhookFailed, match="not public"):
            Webhook(url, SECRET).tell(ALERT)

    assert not receiver.bodies


def test_one_address_of_ours_among_others_is_enough_to_refuse():
    webhook = Webhook("http://hook.example/", SECRET, resolve=lambda host, port: ["8.8.8.8", "127.0.0.1"])

    with pytest.raises(WebhookFailed, match="not public"):
        webhook.tell(ALERT)


def test_the_connection_goes_to_the_address_that_was_checked(receiver):
    asked = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    Webhook(f"http://hook.invalid:{receiver.port}/", SECRET, allows_private=True, resolve=resolve).tell(ALERT)

    assert asked == ["hook.invalid"]
    assert len(receiver.bodies) == 1


def test_redirects_are_not_followed():
    made = Receiver(302, Location="http://127.0.0.1:1/")
    try:
        with pytest.raises(WebhookFailed, match="302"):
            Webhook(f"http://127.0.0.1:{made.port}/", SECRET, allows_private=True).tell(ALERT)
    finally:
        made.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/secret-path", "http://no.such.host.invalid/secret-path"])
def test_what_does_not_arrive_is_a_failure_that_tells_no_secret(url):
    webhook = Webhook(url, SECRET, allows_private=True)

    with pytest.raises(WebhookFailed) as failed:
        webhook.tell(ALERT)

    assert "secret-path" not in str(failed.value) + repr(webhook)
    assert SECRET not in repr(webhook)
