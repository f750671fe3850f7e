"""Fetching, with a network that the test makes up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from hooks.outbound.addresses import AllowedHosts, WebAddress
from inference.domain.media import UnreadableMedia
from inference.media.fetching import MAX_REDIRECTS, MediaFetcher
from inference.media.limits import MediaLimits

PUBLIC = "93.184.216.34"
LIMITS = MediaLimits(max_bytes=1000, fetch_timeout_s=5)


def answer(body: bytes = b"picture", status: str = "200 OK", **headers: str) -> bytes:
    given = {"Content_Type": "image/png", "Content_Length": str(len(body)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items() if value]
    return f"HTTP/1.1 {status}\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(url: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n".encode()


class Writer:
    """The part of a StreamWriter that is used."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False
        self.transport = self

    def write(self, data: bytes) -> None:
        self.sent += data

    def abort(self) -> None:
        self.is_closed = True

    async def wait_closed(self) -> None:
        """At once."""


class Network:
    """Names with addresses, and what is behind each URL: bytes that come in pieces of `piece_bytes`."""

    def __init__(
        self,
        answers: Mapping[str, bytes | None],
        *,
        ips: Mapping[str, list[str]] | None = None,
        piece_bytes: int = 7,
    ) -> None:
        self.answers = answers
        self.ips = ips or {}
        self.piece_bytes = piece_bytes
        self.connections: list[tuple[str, str]] = []
        self.writers: list[Writer] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        return self.ips.get(host, [PUBLIC])

    async def connect(self, ip: str, address: WebAddress) -> Any:
        self.connections.append((ip, address.host))
        writer = Writer()
        self.writers.append(writer)
        reader = asyncio.StreamReader()
        data = self.answers[f"{address.scheme}://{address.host}{address.target}"]
        if data is None:
            return reader, writer  # silence
        for start in range(0, len(data), self.piece_bytes):
            reader.feed_data(data[start : start + self.piece_bytes])
        reader.feed_eof()
        return reader, writer

    def fetcher(self, *rules: str, limits: MediaLimits = LIMITS) -> MediaFetcher:
        return MediaFetcher(AllowedHosts(rules or ("*",)), limits, resolve=self.resolve, connect=self.connect)


URL = "https://example.com/a.png"


async def fetch(data: bytes | None, **network: Any) -> bytes:
    made = Network({URL: data}, **network)
    try:
        return await made.fetcher().fetch(URL)
    finally:
        assert all(writer.is_closed for writer in made.writers)


@pytest.mark.parametrize("piece_bytes", [1, 7, 10_000])
async def test_a_file_is_fetched_however_it_comes(piece_bytes: int) -> None:
    assert await fetch(answer(), piece_bytes=piece_bytes) == b"picture"


async def test_the_request_says_little_and_asks_the_right_server() -> None:
    network = Network({URL: answer()})
    await network.fetcher("example.com").fetch(URL)
    sent = network.writers[0].sent.decode()
    assert sent.startswith("GET /a.png HTTP/1.1\r\nHost: example.com\r\n")
    assert "Connection: close\r\n" in sent
    assert sent.endswith("\r\n\r\n")
    assert network.connections == [(PUBLIC, "example.com")]


async def test_bodies_without_a_length_end_with_the_connection_or_in_chunks() -> None:
    assert await fetch(answer(Content_Length="")) == b"picture"
    chunked = answer(b"3\r\npic\r\n4\r\nture\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding="chunked")
    assert await fetch(chunked) == b"picture"


@pytest.mark.parametrize(
    "data",
    [
        answer(bytes(1001)),
        answer(bytes(1001), Content_Length=""),
        answer(b"3e9\r\n" + bytes(1001), Content_Length="", Transfer_Encoding="chunked"),
        answer(Content_Length="99999999999999999999"),
        answer(Content_Length="-5"),
        answer(Content_Length="1001"),
        answer(Content_Type="text/html"),
        answer(Content_Type="application/json"),
        answer(Content_Encoding="gzip"),
        answer(status="404 Not Found"),
        answer(status="500 Internal Server Error"),
        answer(status="204 No Content"),
        answer(status="304 Not Modified"),
        answer()[:-1],
        answer()[:30],
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 50_000,
        redirect(""),
    ],
)
async def test_answers_that_are_no_file_are_refused(data: bytes) -> None:
    for piece_bytes in (1000, 7):
        with pytest.raises(UnreadableMedia):
            await fetch(data, piece_bytes=piece_bytes)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 T", "308 P"])
async def test_redirects_are_followed_where_they_may_lead(status: str) -> None:
    network = Network(
        {URL: redirect("/b.png", status), "https://example.com/b.png": redirect("http://cdn.example.com/c"),
         "http://cdn.example.com/c": answer()}
    )  # fmt: skip
    assert await network.fetcher("example.com", "cdn.example.com").fetch(URL) == b"picture"
    assert [host for _, host in network.connections] == ["example.com", "example.com", "cdn.example.com"]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost/",
        "http://other.org/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "//other.org/",
        "http://example.com:22/",
        "http://user@example.com/",
    ],
)
async def test_redirects_elsewhere_are_not_followed(target: str) -> None:
    network = Network({URL: redirect(target)})
    with pytest.raises(UnreadableMedia):
        await network.fetcher("example.com").fetch(URL)
    assert len(network.connections) == 1


async def test_redirects_end() -> None:
    network = Network({URL: redirect(URL)})
    with pytest.raises(UnreadableMedia, match="redirects"):
        await network.fetcher().fetch(URL)
    assert len(network.connections) == MAX_REDIRECTS + 1


@pytest.mark.parametrize("ips", [["127.0.0.1"], ["10.1.2.3", "::1"], ["169.254.169.254"], []])
async def test_names_of_private_addresses_are_never_connected_to(ips: list[str]) -> None:
    network = Network({URL: answer()}, ips={"example.com": ips})
    with pytest.raises(UnreadableMedia):
        await network.fetcher().fetch(URL)
    assert not network.connections


async def test_the_address_that_was_checked_is_the_one_that_is_used() -> None:
    """A name that has a public address when it is checked and another one afterwards."""
    network = Network({URL: answer()}, ips={"example.com": ["127.0.0.1", PUBLIC]})
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return [PUBLIC] if len(asked) == 1 else ["127.0.0.1"]

    fetcher = MediaFetcher(AllowedHosts(["*"]), LIMITS, resolve=resolve, connect=network.connect)
    assert await fetcher.fetch(URL) == b"picture"
    assert network.connections == [(PUBLIC, "example.com")]
    with pytest.raises(UnreadableMedia):
        await fetcher.fetch(URL)
    assert len(network.connections) == 1


async def test_a_redirect_to_a_name_of_a_private_address_is_not_followed() -> None:
    network = Network(
        {URL: redirect("https://inside.example.com/")}, ips={"inside.example.com": ["10.0.0.1"]}
    )
    with pytest.raises(UnreadableMedia):
        await network.fetcher("*.example.com", "example.com").fetch(URL)
    assert [host for _, host in network.connections] == ["example.com"]


async def test_silence_is_not_waited_for() -> None:
    network = Network({URL: None})
    limits = MediaLimits(fetch_timeout_s=0.05)
    with pytest.raises(UnreadableMedia, match="could not be fetched"):
        await network.fetcher(limits=limits).fetch(URL)
    assert network.writers[0].is_closed


async def test_without_a_list_nothing_is_fetched() -> None:
    network = Network({URL: answer()})
    fetcher = MediaFetcher(AllowedHosts([]), LIMITS, resolve=network.resolve, connect=network.connect)
    with pytest.raises(UnreadableMedia, match="data: URL"):
        await fetcher.fetch(URL)
    assert not network.connections


async def test_what_the_network_says_is_not_passed_on() -> None:
    async def connect(ip: str, address: WebAddress) -> Any:
        raise OSError("connection to 10.9.8.7 refused, route via gateway")

    fetcher = MediaFetcher(AllowedHosts(["*"]), LIMITS, resolve=Network({}).resolve, connect=connect)
    with pytest.raises(UnreadableMedia) as caught:
        await fetcher.fetch(URL)
    assert "10.9.8.7" not in str(caught.value)
