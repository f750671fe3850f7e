"""An HTTP answer while it comes in, bounded in everything that the other side decides.

The parser is C (httptools; h11, which the usual clients use, takes 100 ms for as many headers as it allows),
and what it finds is refused as soon as that can be known: an answer made of headers, of chunks of one byte,
or of provisional answers without end must not cost the event loop more than a short one. Nothing is unpacked:
an answer in an encoding is none.
"""

from __future__ import annotations

import httptools

from hooks.webhooks.failures import CallFailure, FailureReason

MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS = 100
# Beside one for each so many bytes of the body.
FREE_PIECES, BYTES_A_PIECE = 64, 256
# Gateways say these while what is behind them is away, and services while they are too busy.
_DOWN = frozenset({429, 502, 503, 504})
_RETRIED = frozenset({502, 503, 504})


class HttpAnswer:
    """`feed` and `end` raise CallFailure. Once `is_complete`, `body` is what an answer of 200 said, as JSON,
    or empty for one of 204, and `can_follow` says whether another call may be made on its connection."""

    def __init__(self, max_bytes: int) -> None:
        self.body = bytearray()
        self.is_complete = False
        self.has_begun = False
        self._parser = httptools.HttpResponseParser(self)
        self._max_bytes = max_bytes
        self._num_header_bytes = self._num_headers = self._num_pieces = 0
        self._headers: dict[bytes, bytes] = {}
        self._has_headers = False
        self._has_more = self._can_keep = False
        self._failure: CallFailure | None = None

    @property
    def can_follow(self) -> bool:
        return self.is_complete and not self._has_more and self._can_keep

    def feed(self, data: bytes) -> None:
        self.has_begun = True
        if not self._has_headers:
            self._num_header_bytes += len(data)
            data, later = data[:MAX_HEADER_BYTES], data[MAX_HEADER_BYTES:]
        else:
            later = b""
        try:
            self._parser.feed_data(data)
            if not self._has_headers and self._num_header_bytes > MAX_HEADER_BYTES:
                raise CallFailure(FailureReason.LOST, is_down=True)
            if later:
                self._parser.feed_data(later)
        except httptools.HttpParserUpgrade:
            raise CallFailure(FailureReason.STATUS) from None
        except httptools.HttpParserError:
            if self.is_complete:
                # What follows a whole answer is of no account, and there is no more to come.
                self._has_more = True
                return
            raise self._failure or CallFailure(FailureReason.LOST, is_down=True) from None

    def end(self) -> None:
        """The connection ended. An answer without a length is complete with that."""
        has_length = {b"content-length", b"transfer-encoding"} & self._headers.keys()
        if not self._has_headers or has_length:
            raise CallFailure(FailureReason.LOST, is_down=True)
        self.is_complete = True
        self._has_more = True

    # What the parser calls. It wraps what is raised, so that it is kept here, too.

    def on_message_begin(self) -> None:
        if self.is_complete:
            self._has_more = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_headers += 1
        if self._num_headers > MAX_HEADERS:
            self._refuse(CallFailure(FailureReason.LOST, is_down=True))
        if not self._has_headers:
            self._headers[name.lower()] = value.strip().lower()

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            # Provisional: another one follows.
            self._headers.clear()
            return
        self._has_headers = True
        if status not in (200, 204):
            is_down, can_retry = status in _DOWN, status in _RETRIED
            self._refuse(CallFailure(FailureReason.STATUS, is_down=is_down, can_retry=can_retry))
        kind = self._headers.get(b"content-type", b"").partition(b";")[0].strip()
        encoding = self._headers.get(b"content-encoding", b"identity")
        if status == 200 and (kind != b"application/json" or encoding != b"identity"):
            self._refuse(CallFailure(FailureReason.NOT_UNDERSTOOD))
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > self._max_bytes:
            self._refuse(CallFailure(FailureReason.TOO_LARGE))

    def on_body(self, piece: bytes) -> None:
        if self.is_complete:
            return
        self.body += piece
        self._num_pieces += 1
        if (
            len(self.body) > self._max_bytes
            or self._num_pieces > FREE_PIECES + len(self.body) // BYTES_A_PIECE
        ):
            self._refuse(CallFailure(FailureReason.TOO_LARGE))

    def on_message_complete(self) -> None:
        if self._has_headers and not self.is_complete:
            self.is_complete = True
            self._can_keep = bool(self._parser.should_keep_alive())

    def _refuse(self, failure: CallFailure) -> None:
        self._failure = failure
        raise failure
