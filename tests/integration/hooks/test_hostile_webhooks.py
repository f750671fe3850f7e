"""Webhooks that answer badly, slowly, without end, or from where they should not be."""

import asyncio
import datetime
import gzip
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hooks.contracts.actions import Deny, Tag
from hooks.contracts.view import MessageView, RequestView, TextPart
from hooks.contracts.webhook_settings import BodyPart, WebhookRights
from hooks.contracts.webhooks import WebhookFailed
from hooks.webhooks.caller import HttpWebhookCaller
from hooks.webhooks.failures import FailureReason
from tests.webhook_calls import webhook_call, webhook_settings
from tests.webhook_receiver import Receiver, always, answer, here

TIMEOUT_S = 60.0
CHUNKED = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def failure_of(caller, **changes):
    with pytest.raises(WebhookFailed) as caught:
        await caller.call(webhook_call(**changes), timeout_s=TIMEOUT_S)
    return caught.value.reason


NOT_UNDERSTOOD = {
    "no json": answer(b"Welcome!"),
    "html": answer(b'{"actions": []}', Content_Type="text/html; charset=utf-8"),
    "no type": answer(Content_Type=""),
    "empty object": answer(b"{}"),
    "a list": answer(b'[{"type": "deny", "message": "No."}]'),
    "null": answer(b"null"),
    "null actions": answer(b'{"actions": null}'),
    "more than actions": answer(b'{"actions": [], "url": "http://127.0.0.1/"}'),
    "no action": answer(b'{"actions": ["deny"]}'),
    "unknown action": answer(b'{"actions": [{"type": "run", "command": "true"}]}'),
    "unknown field": answer(b'{"actions": [{"type": "deny", "message": "No.", "more": 1}]}'),
    "wrong type": answer(b'{"actions": [{"type": "deny", "message": 7}]}'),
    "status out of range": answer(b'{"actions": [{"type": "deny", "message": "No.", "status": 200}]}'),
    "another webhook": answer(b'{"actions": [{"type": "call_webhook", "webhook_id": 2}]}'),
    "too many": answer({"actions": [{"type": "tag", "name": "a"}] * 33}),
    "invalid utf-8": answer(b'{"actions": [{"type": "deny", "message": "\xff\xfe"}]}'),
    "half a pair": answer(rb'{"actions": [{"type": "deny", "message": "\ud800"}]}'),
    "another encoding": answer('{"actions": []}'.encode("utf-16")),
    "too deep": answer(b'{"actions": ' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
    "deep and open": answer(b"[" * 60_000),
    "no number": answer(b'{"actions": [{"type": "clamp_parameter", "name": "n", "maximum": NaN}]}'),
    "huge number": answer(
        b'{"actions": [{"type": "deny", "message": "No.", "status": 1' + b"0" * 400 + b"}]}"
    ),
    "packed": answer(gzip.compress(b'{"actions": []}'), Content_Encoding="gzip"),
    "twice": answer(b'{"actions": []}{"actions": []}'),
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
async def test_an_answer_that_is_none_is_a_failure_of_its_own_call(caller, receiver, name):
    receiver.behave = always(NOT_UNDERSTOOD[name])
    caller.use([webhook_settings(receiver.url(), max_retries=3)])

    assert await failure_of(caller) == FailureReason.NOT_UNDERSTOOD
    assert len(receiver.received) == 1
    assert caller.statistics()[0].breaker.num_failures == 0
    receiver.behave = always(answer())
    assert (await caller.call(webhook_call(), timeout_s=TIMEOUT_S)).actions == ()


def in_chunks(pieces, size):
    chunk = b"%x\r\n" % size + b"a" * size + b"\r\n"
    return CHUNKED.encode() + chunk * pieces


TOO_LARGE = {
    "10 MB": answer(b"a" * 10_000_000),
    "10 MB without a length": answer(b"a" * 10_000_000, Content_Length=""),
    "10 MB in chunks": in_chunks(1000, 10_000),
    "byte by byte": in_chunks(200_000, 1),
    "one more than allowed": answer(b" " * 65_537),
}


@pytest.mark.parametrize("name", TOO_LARGE)
async def test_what_is_too_large_is_not_read(caller, receiver, name):
    receiver.behave = always(TOO_LARGE[name])
    caller.use([webhook_settings(receiver.url())])

    assert await failure_of(caller) == FailureReason.TOO_LARGE
    await receiver.until(lambda one: one.num_ended == 1)


LOST = {
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000,
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 60_000,
    "no http": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bad length": answer(Content_Length="-5"),
    "two lengths": answer(Content_Length="15\r\nContent-Length: 16"),
    "bad chunk": CHUNKED.encode() + b"zz\r\n",
    "provisional answers without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
    "trailers without end": CHUNKED.encode() + b"2\r\n{}\r\n0\r\n" + b"X: a\r\n" * 60_000,
    "as many headers as fit": b"HTTP/1.1 200 OK\r\n" + b"X:\r\n" * 3000 + b"\r\n",
}


@pytest.mark.parametrize("name", LOST)
async def test_what_is_no_http_is_a_lost_connection(caller, receiver, name):
    receiver.behave = always(LOST[name])
    caller.use([webhook_settings(receiver.url(), max_retries=3)])

    assert await failure_of(caller) == FailureReason.LOST
    assert len(receiver.received) == 1
    await receiver.until(lambda one: one.num_ended == 1)


async def test_an_answer_that_ends_early_is_a_lost_connection(caller, receiver):
    async def behave(_received, writer):
        writer.write(answer()[:-3])
        await writer.drain()
        writer.close()

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), max_retries=3)])

    assert await failure_of(caller) == FailureReason.LOST
    assert len(receiver.received) == 1


async def test_an_answer_without_a_length_ends_with_its_connection(caller, receiver):
    async def behave(_received, writer):
        writer.write(answer({"actions": [{"type": "tag", "name": "a"}]}, Content_Length=""))
        await writer.drain()
        writer.close()

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url())])
    for _ in range(2):
        assert (await caller.call(webhook_call(), timeout_s=TIMEOUT_S)).actions == (Tag("a"),)

    assert receiver.num_connections == 2


@pytest.mark.parametrize("headers", [{"Connection": "close"}, {}])
async def test_an_answer_that_nobody_asked_for_is_not_taken_for_that_of_the_next_call(
    caller, receiver, headers
):
    def denied(message):
        return answer({"actions": [{"type": "deny", "message": message}]}, **headers)

    async def behave(received, writer):
        # Both at once: whoever reads only the first keeps the second for later.
        writer.write(denied(f"of {received.connection}") + denied("stale"))

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url())])
    for place in range(3):
        given = await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
        assert given.actions == (Deny(f"of {place}"),)


async def test_a_connection_that_speaks_while_it_is_kept_is_closed(caller, receiver):
    go_on = asyncio.Event()

    async def behave(received, writer):
        writer.write(answer({"actions": [{"type": "deny", "message": f"of {received.connection}"}]}))
        await go_on.wait()
        writer.write(answer({"actions": [{"type": "deny", "message": "stale"}]}))

    receiver.behave = behave
    caller.use([webhook_settings(receiver.url())])
    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
    go_on.set()
    await receiver.until(lambda one: one.num_ended == 1)
    given = await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    assert given.actions == (Deny("of 1"),)


async def test_an_early_answer_is_read_while_the_body_is_still_going_out(caller):
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"", "413 Content Too Large"))
        await is_over.wait()
        writer.transport.abort()
        is_closed.set()

    is_over, is_closed = asyncio.Event(), asyncio.Event()
    rights = WebhookRights(frozenset({BodyPart.TEXT}))
    request = RequestView("chat.completions", "m", (MessageView("user", (TextPart("a" * 8_000_000),)),))
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://hook.example:{server.sockets[0].getsockname()[1]}/"
        caller.use([webhook_settings(url, rights=rights, max_body_bytes=8 << 20)])

        assert await failure_of(caller, request=request) == FailureReason.STATUS
        is_over.set()
        await is_closed.wait()


async def drip_head(_received, writer):
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.005)


async def drip_header(_received, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.005)


async def drip_body(_received, writer):
    writer.write(answer(b"", Content_Length="60000"))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.005)


async def hang(_received, _writer):
    await asyncio.Event().wait()


@pytest.mark.parametrize("behave", [hang, drip_head, drip_header, drip_body])
async def test_what_does_not_end_is_given_up_in_time_and_closed(caller, receiver, behave):
    receiver.behave = behave
    caller.use([webhook_settings(receiver.url(), deadline_s=0.3)])

    async with asyncio.timeout(30):
        assert await failure_of(caller) == FailureReason.TIMED_OUT
    await receiver.until(lambda one: one.num_ended == 1)


async def test_a_handshake_that_does_not_end_is_given_up_and_closed(caller, receiver):
    """The receiver waits for a request, and gets the beginning of one of TLS."""
    caller.use([webhook_settings(receiver.url().replace("http:", "https:"), deadline_s=0.3)])

    assert await failure_of(caller) == FailureReason.TIMED_OUT
    await receiver.until(lambda one: one.num_ended == 1)


async def test_one_that_hangs_harms_no_other(receiver):
    async with Receiver(hang) as hanging:
        caller = HttpWebhookCaller(resolve=here)
        caller.use(
            [webhook_settings(receiver.url()), webhook_settings(hanging.url(), webhook_id=2, max_in_flight=2)]
        )
        out = [
            asyncio.create_task(caller.call(webhook_call(webhook_id=2), timeout_s=TIMEOUT_S))
            for _ in range(10)
        ]
        await hanging.until(lambda one: len(one.received) == 2)
        await asyncio.gather(*(caller.call(webhook_call(), timeout_s=TIMEOUT_S) for _ in range(50)))
        for task in out:
            task.cancel()
        await asyncio.gather(*out, return_exceptions=True)
        await caller.close()


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
async def test_redirects_are_not_followed(caller, receiver, status):
    async with Receiver() as inside:
        receiver.behave = always(answer(b"", status, Location=inside.url("127.0.0.1")))
        caller.use([webhook_settings(receiver.url())])

        assert await failure_of(caller) == FailureReason.STATUS
        assert inside.num_connections == 0


async def test_no_other_protocol_is_switched_to(caller, receiver):
    receiver.behave = always(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
    caller.use([webhook_settings(receiver.url())])

    assert await failure_of(caller) in (FailureReason.STATUS, FailureReason.LOST)
    await receiver.until(lambda one: one.num_ended == 1)


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"], ["10.0.0.1"]]
)
async def test_a_name_with_a_private_address_is_not_called(receiver, addresses):
    async def resolve(_host, _port):
        return addresses

    caller = HttpWebhookCaller(resolve=resolve)
    caller.use([webhook_settings(receiver.url().replace("http:", "https:"), allows_private=False)])

    assert await failure_of(caller) == FailureReason.NOT_ALLOWED
    assert receiver.num_connections == 0
    assert caller.statistics()[0].breaker.num_failures == 0
    await caller.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1"])
async def test_an_address_of_this_machine_in_any_form_is_not_called(receiver, host):
    caller = HttpWebhookCaller()
    caller.use([webhook_settings(f"https://{host}:{receiver.port}/", allows_private=False, max_retries=0)])

    assert await failure_of(caller) in (FailureReason.NOT_ALLOWED, FailureReason.NOT_REACHED)
    assert receiver.num_connections == 0
    await caller.close()


async def test_clouds_credentials_are_not_called_even_where_private_addresses_are(caller):
    async def resolve(_host, _port):
        return ["169.254.169.254"]

    caller = HttpWebhookCaller(resolve=resolve)
    caller.use([webhook_settings("http://metadata.example/")])

    assert await failure_of(caller) == FailureReason.NOT_ALLOWED
    await caller.close()


async def test_a_name_is_looked_up_once_for_a_connection_which_goes_where_it_pointed(receiver):
    asked = []

    async def resolve(host, _port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    caller = HttpWebhookCaller(resolve=resolve)
    caller.use([webhook_settings(receiver.url())])
    for _ in range(2):
        await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

    assert asked == ["hook.example"]
    assert receiver.num_connections == 1
    await caller.close()


async def test_the_next_address_is_tried_where_one_does_not_answer(receiver):
    async def resolve(_host, _port):
        return ["127.0.0.9", "127.0.0.1"]

    caller = HttpWebhookCaller(resolve=resolve)
    caller.use([webhook_settings(receiver.url(), max_retries=0)])

    await caller.call(webhook_call(), timeout_s=TIMEOUT_S)
    await caller.close()


async def test_a_name_that_nobody_answers_for_is_given_up(receiver):
    async def resolve(_host, _port):
        await asyncio.Event().wait()

    caller = HttpWebhookCaller(resolve=resolve)
    caller.use([webhook_settings(receiver.url(), deadline_s=0.1)])

    assert await failure_of(caller) == FailureReason.TIMED_OUT
    await caller.close()


async def test_proxies_of_the_environment_are_not_used(caller, receiver, monkeypatch):
    async with Receiver() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url("127.0.0.1", "/"))
        caller.use([webhook_settings(receiver.url())])
        await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

        assert proxy.num_connections == 0


class Authority:
    """Signs certificates for names, and is believed by `trust`."""

    def __init__(self, folder):
        self._folder = folder
        self._key, self._name = ec.generate_private_key(ec.SECP256R1()), "Test authority"
        self._cert = self._signed(self._key, self._name, x509.BasicConstraints(ca=True, path_length=0))
        self.trust = ssl.create_default_context(
            cadata=self._cert.public_bytes(serialization.Encoding.PEM).decode()
        )

    def context_for(self, *names):
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(key, names[0], x509.SubjectAlternativeName([_general(name) for name in names]))
        file = self._folder / f"{names[0]}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + cert.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context

    def _signed(self, key, name, extension):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _general(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


async def test_tls_asks_for_the_certificate_of_the_name_and_not_of_the_address(authority):
    asked = []
    context = authority.context_for("hook.example")
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with Receiver(tls=context) as secure:
        caller = HttpWebhookCaller(resolve=here, trust=authority.trust)
        caller.use([webhook_settings(secure.url())])
        for _ in range(2):
            await caller.call(webhook_call(), timeout_s=TIMEOUT_S)

        assert asked == ["hook.example"]
        assert secure.num_connections == 1
        await caller.close()


@pytest.mark.parametrize("name", ["other.example", "127.0.0.1"])
async def test_a_certificate_of_another_name_is_not_believed(authority, name):
    async with Receiver(tls=authority.context_for(name)) as secure:
        caller = HttpWebhookCaller(resolve=here, trust=authority.trust)
        caller.use([webhook_settings(secure.url(), max_retries=0)])

        assert await failure_of(caller) == FailureReason.NOT_REACHED
        assert not secure.received
        await caller.close()


async def test_a_certificate_that_the_system_does_not_know_is_not_believed(authority):
    async with Receiver(tls=authority.context_for("hook.example")) as secure:
        caller = HttpWebhookCaller(resolve=here)
        caller.use([webhook_settings(secure.url(), max_retries=0)])

        assert await failure_of(caller) == FailureReason.NOT_REACHED
        assert not secure.received
        await caller.close()
