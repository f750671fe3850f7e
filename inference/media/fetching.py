"""A file from another server, as far as that is allowed.

Each step is checked again after a redirect: the list of hosts, the addresses behind the name, type
and size. The connection goes to the very address that was checked: a name that is looked up twice may
have another answer the second time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from urllib.parse import urljoin

import httptools

from hooks.outbound.addresses import AddressRefused, AllowedHosts, WebAddress, is_public
from hooks.outbound.names import NameResolver
from inference.domain.media import UnreadableMedia
from inference.media.limits import MediaLimits

MAX_REDIRECTS = 3
MAX_HEADER_BYTES = 64 * 1024
_READ_BYTES = 64 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_TYPES = ("image/", "audio/", "application/octet-stream")
USER_AGENT = "skippy"

Resolve = Callable[[str, int], Awaitable[list[str]]]
Connect = Callable[[str, WebAddress], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def connect_to(ip: str, address: WebAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to `ip`, where `address.host` must prove who it is if it is https."""
    if address.scheme == "http":
        return await asyncio.open_connection(ip, address.port)
    return await asyncio.open_connection(ip, address.port, ssl=_trust(), server_hostname=address.host)


@cache
def _trust() -> ssl.SSLContext:
    """Reading the system's certificates takes longer than a request."""
    return ssl.create_default_context()


class MediaFetcher:
    """Fetches files for requests, on the event loop. `resolve` and `connect` are the network."""

    def __init__(
        self,
        hosts: AllowedHosts,
        limits: MediaLimits,
        *,
        resolve: Resolve | None = None,
        connect: Connect = connect_to,
    ) -> None:
        self._hosts = hosts
        self._limits = limits
        self._resolve = resolve or NameResolver().addresses
        self._connect = connect

    async def fetch(self, url: str) -> bytes:
        """The whole file. Raises UnreadableMedia, whose words say nothing of what is behind the host."""
        if not self._hosts:
            raise UnreadableMedia("this service fetches nothing from URLs; send the file as a data: URL")
        try:
            async with asyncio.timeout(self._limits.fetch_timeout_s):
                for _ in range(MAX_REDIRECTS + 1):
                    response = await self._get(self._hosts.check(url))
                    if response.location is None:
                        return bytes(response.body)
                    url = urljoin(url, response.location)
        except AddressRefused as problem:
            raise UnreadableMedia(str(problem)) from None
        except (TimeoutError, OSError, ssl.SSLError, httptools.HttpParserError, EOFError, ValueError):
            raise UnreadableMedia("it could not be fetched from its URL") from None
        raise UnreadableMedia("its URL redirects too often")

    async def _get(self, address: WebAddress) -> Response:
        ips = [ip for ip in await self._resolve(address.host, address.port) if is_public(ip)]
        if not ips:
            raise AddressRefused("its host is not one that may be called")
        reader, writer = await self._connect(ips[0], address)
        try:
            writer.write(_request(address))
            response = Response(self._limits.max_bytes)
            parser = httptools.HttpResponseParser(response)
            response.parser = parser
            while not response.is_complete:
                data = await reader.read(_READ_BYTES)
                if not data:
                    if not response.ends_with_connection:
                        raise EOFError
                    break
                response.note_received(len(data))
                parser.feed_data(data)
            return response
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ or error) from None
        finally:
            writer.transport.abort()
            with suppress(Exception):
                await writer.wait_closed()


class Response:
    """What the parser calls while an answer comes in; refuses as soon as it can be known."""

    def __init__(self, max_bytes: int) -> None:
        self.parser: httptools.HttpResponseParser | None = None
        self.body = bytearray()
        self.location: str | None = None
        self.is_complete = False
        self._max_bytes = max_bytes
        self._headers: dict[str, str] = {}
        self._has_headers = False
        self._num_header_bytes = 0

    @property
    def ends_with_connection(self) -> bool:
        """An answer without a length is over when the server closes."""
        has_length = {"content-length", "transfer-encoding"} & self._headers.keys()
        return self._has_headers and not has_length

    def note_received(self, num_bytes: int) -> None:
        if not self._has_headers:
            self._num_header_bytes += num_bytes
            if self._num_header_bytes > MAX_HEADER_BYTES:
                raise UnreadableMedia("it could not be fetched from its URL")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1").strip()

    def on_headers_complete(self) -> None:
        self._has_headers = True
        status = self.parser.get_status_code() if self.parser is not None else 0
        headers = self._headers
        if status in _REDIRECTS and headers.get("location"):
            self.location, self.is_complete = headers["location"], True
            return
        if status != 200:
            raise UnreadableMedia(f"its server answered {status}")
        if not headers.get("content-type", "application/octet-stream").lower().startswith(_TYPES):
            raise UnreadableMedia("what is behind its URL is neither a picture nor a sound")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise UnreadableMedia("its server sent it in an encoding that was not asked for")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_bytes:
            raise _too_large(self._max_bytes)

    def on_body(self, body: bytes) -> None:
        if self.location is not None:
            return
        if len(self.body) + len(body) > self._max_bytes:
            raise _too_large(self._max_bytes)
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


def _too_large(max_bytes: int) -> UnreadableMedia:
    return UnreadableMedia(f"it is larger than {max_bytes} bytes")


def _request(address: WebAddress) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    if not address.is_default_port:
        host += f":{address.port}"
    return (
        f"GET {address.target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\n"
        "Accept: image/*, audio/*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"
    ).encode("ascii")
